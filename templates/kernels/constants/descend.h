#pragma once

#define KERNEL descend_sample
constexpr unsigned BLOCK = 256;
constexpr float RATE = 0.01f;
constexpr unsigned SIZE = 1001; /* elements */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
using Element = float; /* of tensors in memory */
