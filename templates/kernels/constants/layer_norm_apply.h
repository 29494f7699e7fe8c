#pragma once

#define KERNEL layer_norm_apply_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned AXIS = 767; /* elements of a row */
constexpr unsigned SIZE = 785408; /* and of all */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
using Element = float; /* of x, y and their gradients in memory */
