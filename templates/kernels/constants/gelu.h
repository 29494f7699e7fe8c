#pragma once

#define KERNEL gelu_sample
constexpr unsigned BLOCK = 256;
constexpr Gelu FUNCTION = Gelu::GELU;
constexpr unsigned SIZE = 1000; /* elements */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
using Element = float; /* of tensors in memory */
