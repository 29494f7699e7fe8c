#pragma once

#define KERNEL subtract_backward_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 1001; /* elements */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
using Element = float; /* of tensors in memory */
