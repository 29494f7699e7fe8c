#pragma once

#define KERNEL sample_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned ROWS = 4;
constexpr unsigned ROW = 1000; /* elements of a row */
constexpr unsigned VECTOR = 4; /* elements of an access */
#define GREEDY 0 /* the largest element; otherwise by a random number */
using Element = float; /* of x in memory */
