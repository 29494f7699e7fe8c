#pragma once

#define WITH_STATISTICS 1 /* mean and 1 / sqrt(variance + EPSILON) of the batch are results */
#define WITH_UPDATE 1 /* so are the new running statistics, */
#define WITH_HISTORY 1 /* which are made of older ones */
constexpr float EPSILON = 1e-05f;
constexpr float FACTOR = 0.1f; /* of the batch in the running mean */
constexpr float UNBIASED = 0.1000319f; /* of its variance in the running one */
constexpr float KEEP = 0.9f; /* of the older ones in both */
