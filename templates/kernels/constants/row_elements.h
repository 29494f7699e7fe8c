#pragma once

#define KERNEL row_elements_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned ROWS = 4;
constexpr unsigned ROW = 1000; /* elements of a row */
constexpr unsigned VECTOR = 4; /* elements of an access */
using Element = float; /* of x in memory */
