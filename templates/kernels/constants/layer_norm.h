#pragma once

#define KERNEL layer_norm_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned ROWS = 1024;
constexpr unsigned AXIS = 768; /* elements of a row */
constexpr unsigned GROUP_ROWS = 1; /* rows of a work-group */
constexpr unsigned SLICES = 256; /* work-items of a row */
constexpr unsigned VECTOR = 4; /* elements of an access */
constexpr unsigned HELD = 4; /* elements of a work-item */
constexpr bool IN_REGISTERS = true; /* or it reads them again in each sweep */
constexpr unsigned FINALS = 16; /* partial results at the end of a reduction */
constexpr float INVERSE = 0.00130208337f; /* 1 / AXIS */
constexpr float EPSILON = 1e-05f; /* of the forward pass */
#define WITH_RESULT 1 /* y or dx; otherwise what a second kernel makes it of */
using Element = float; /* of x, y and their gradients in memory */
