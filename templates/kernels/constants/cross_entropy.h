#pragma once

#define KERNEL cross_entropy_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned ROWS = 100;
constexpr unsigned AXIS = 1000; /* classes */
constexpr unsigned INNER = 1; /* elements between neighbours in a row */
constexpr int IGNORED = -100; /* label of rows that do not count */
constexpr unsigned FINALS = 16; /* partial results at the end of a reduction, at most */
using Element = float; /* of x in memory */
