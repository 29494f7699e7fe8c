#pragma once

#define KERNEL rows_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned ROWS = 1024;
constexpr unsigned AXIS = 768; /* elements of a row */
constexpr unsigned GROUP_ROWS = 1; /* rows of a work-group */
constexpr unsigned SLICES = 256; /* work-items of a row */
constexpr unsigned VECTOR = 4; /* elements of an access */
constexpr unsigned HELD = 4; /* elements of a work-item */
constexpr bool KEPT = true; /* in registers (Share), or it reads them again in each sweep */
constexpr unsigned FINALS = 16; /* partial results at the end of a reduction, at most */
#define WITH_RESULT 1 /* y or dx; otherwise what a second kernel makes it of */
using Element = float; /* of x, y and their gradients in memory */
