#pragma once

#define KERNEL copy_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 1001; /* elements */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
#define EACH_OUTPUT(DO) DO(0) DO(1)
using Element = float; /* of tensors in memory */
