#pragma once

constexpr unsigned TOP_K = 50; /* elements that stay; 0: by their probability */
constexpr float SHARE = 0.0f; /* of the probability, which stays, where TOP_K is 0 */
constexpr float HIDDEN = -32768.0f; /* in place of what does not stay */
