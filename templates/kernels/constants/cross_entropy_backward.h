#pragma once

#define KERNEL cross_entropy_backward_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 100000; /* elements */
constexpr unsigned AXIS = 1000; /* classes */
constexpr unsigned INNER = 1; /* elements between neighbours in a row */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
constexpr int IGNORED = -100; /* label of rows that do not count */
#define WITH_NARROW 0 /* elements move by fours alone */
using Element = float; /* of x and dx in memory */
