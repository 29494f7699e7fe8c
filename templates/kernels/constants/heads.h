#pragma once

#define KERNEL heads_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 786432; /* elements */
constexpr unsigned FIRST = 128; /* extents of a sample of x */
constexpr unsigned SECOND = 12;
constexpr unsigned INNER = 64;
constexpr unsigned VECTOR = 4; /* elements of a work-item */
using Element = float; /* of tensors in memory */
