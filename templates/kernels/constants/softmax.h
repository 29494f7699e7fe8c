#pragma once

#define KERNEL softmax_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned ROWS = 100;
constexpr unsigned AXIS = 1000; /* elements of a row */
constexpr unsigned INNER = 1; /* elements between neighbours in a row */
constexpr unsigned GROUP_ROWS = 1; /* rows of a work-group */
constexpr unsigned SLICES = 256; /* work-items of a row */
constexpr unsigned VECTOR = 4; /* elements of an access */
constexpr unsigned HELD = 4; /* elements of a work-item */
constexpr bool IN_REGISTERS = true; /* all of HELD; otherwise each sweep reads the row again */
constexpr unsigned FINALS = 16; /* partial results at the end of a reduction, at most */
#define WITH_RESULT 1 /* y or dx; otherwise what a second kernel makes it of */
using Element = float; /* of tensors in memory */
