#pragma once

#define KERNEL gelu_sample
constexpr unsigned BLOCK = 256;
constexpr Gelu FUNCTION = Gelu::GELU;
constexpr unsigned SIZE = 1000; /* elements */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
constexpr unsigned RUNS = 1; /* in which it has so many each (runs.h) */
using Element = float; /* of tensors in memory */
