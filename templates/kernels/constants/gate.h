#pragma once

#define KERNEL gate_sample
constexpr unsigned BLOCK = 256;
constexpr Gate FUNCTION = Gate::SWIGLU;
constexpr unsigned SIZE = 1000; /* elements of y */
constexpr unsigned ROW = 100; /* and of a row of it */
constexpr unsigned OTHER = 100; /* how far x1 lies behind x0: a row, or 0 in a tensor of its own */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
using Element = float; /* of tensors in memory */
