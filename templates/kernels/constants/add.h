#pragma once

#define KERNEL add_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 1001; /* elements */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
#define EACH_INPUT(DO) DO(0) DO(1) DO(2)
using Element = float; /* of tensors in memory */
