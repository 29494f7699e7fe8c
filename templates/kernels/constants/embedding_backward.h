#pragma once

#define KERNEL embedding_backward_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 64000; /* elements of dw */
constexpr unsigned ROW = 64; /* elements of a word */
constexpr unsigned PLACES = 400; /* words of the text */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
constexpr bool TOGETHER = true; /* whether those are of one word */
using Element = float; /* of tensors in memory */
