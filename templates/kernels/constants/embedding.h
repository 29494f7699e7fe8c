#pragma once

#define KERNEL embedding_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 25600; /* elements of y */
constexpr unsigned ROW = 64; /* elements of a word */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
using Element = float; /* of tensors in memory */
