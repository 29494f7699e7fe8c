#pragma once

#define KERNEL softmax_apply_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned AXIS = 999; /* elements of a row */
constexpr unsigned INNER = 1; /* elements between neighbours in a row */
constexpr unsigned SIZE = 99900; /* elements */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
using Element = float; /* of tensors in memory */
