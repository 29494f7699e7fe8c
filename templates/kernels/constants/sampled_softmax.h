#pragma once

#define KERNEL sampled_softmax_sample
#define PART 0 /* 0: scores, 1: losses, 2: their gradients, 3: those of x, 4: those of w */
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 6400; /* elements of the result */
constexpr unsigned ROWS = 100; /* of x */
constexpr unsigned FEATURES = 64; /* of a row */
constexpr unsigned COLUMNS = 64; /* words of a row: the right one, and the samples */
constexpr float ZIPF = 0.6931471805599453f; /* exponent of the samples' frequencies, times ln 2 */
constexpr float SHARE = 0.0f; /* 1 by the number of rows */
