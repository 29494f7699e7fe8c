#pragma once

#define KERNEL top_filter_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned ROWS = 4;
constexpr unsigned ROW = 1000; /* elements of a row */
constexpr unsigned VECTOR = 4; /* elements of an access */
constexpr unsigned TOP_K = 50; /* elements that stay; 0: by their probability */
constexpr float SHARE = 0.0f; /* of the probability, which stays, where TOP_K is 0 */
constexpr float HIDDEN = -32768.0f; /* in place of what does not stay */
using Element = float; /* of tensors in memory */
