#pragma once

#define KERNEL piecewise_sample
constexpr unsigned BLOCK = 256;
constexpr Piecewise FUNCTION = Piecewise::HARD_SWISH;
constexpr float SLOPE = 0.125f;
constexpr float OFFSET = 0.5f; /* of HARD_SIGMOID, HARD_SWISH and LINEAR */
constexpr float LOW = 0.0f; /* of CLIP */
constexpr float HIGH = 0.0f; /* of CLIP */
constexpr unsigned SIZE = 1000; /* elements */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
using Element = float; /* of tensors in memory */
