#pragma once

#define KERNEL squared_error_backward_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 100000; /* elements */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
constexpr float SHARE = 2e-5f; /* of a difference in the gradient */
#define WITH_NARROW 0 /* elements move by fours alone */
using Element = float; /* of tensors in memory */
