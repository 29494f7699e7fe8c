#pragma once

#define KERNEL add_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 1001; /* elements */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
/* whether inputs, of 8-bit integers, stand for a factor times the difference to a zero point */
constexpr bool SCALED = false;
constexpr float FACTOR0 = 1.0f;
constexpr float FACTOR1 = 1.0f;
constexpr int ZERO0 = 0;
constexpr int ZERO1 = 0;
#define EACH_INPUT(DO) DO(0) DO(1) DO(2)
using Element = float; /* of tensors in memory */
