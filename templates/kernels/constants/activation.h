#pragma once

#define KERNEL activation_sample
constexpr unsigned BLOCK = 256;
constexpr Activation FUNCTION = Activation::TANH;
constexpr float CEILING = 0.0f; /* of CLIPPED_RELU */
constexpr float ALPHA = 0.0f; /* of ELU */
constexpr unsigned SIZE = 1000; /* elements */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
constexpr unsigned RUNS = 1; /* in which it has so many each (runs.h) */
using Element = float; /* of tensors in memory */
