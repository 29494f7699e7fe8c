#pragma once

enum class Op { MAX, MEAN, FIRST };

#define KERNEL pooling_shared_sample
constexpr unsigned BLOCK = 256;
constexpr Op OP = Op::FIRST;
constexpr unsigned SLICES = 4; /* work-items of a window: a power of two */
using Result = float; /* of y in memory */
