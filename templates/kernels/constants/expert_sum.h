#pragma once

#define KERNEL expert_sum_sample
constexpr unsigned BLOCK = 64;
constexpr unsigned PAIRS = 100; /* of a token and an expert */
constexpr unsigned TOP_K = 4; /* pairs of a token */
constexpr unsigned WIDTH = 256; /* elements of a row, a multiple of four */
using Element = float; /* of y in memory */
