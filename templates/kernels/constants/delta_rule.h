#pragma once

constexpr float SCALE = 0.125f; /* of results */
constexpr bool NORMALISED = true; /* q and k are divided by their norms */
#define WITH_STATE 1 /* states before the first token; otherwise they are 0 */
