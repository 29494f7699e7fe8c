#pragma once

#define KERNEL descend_sample
constexpr unsigned BLOCK = 256;
constexpr float RATE = 0.01f;
constexpr unsigned SIZE = 1001; /* elements */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
#define WITH_COPY 0 /* of y, in another type: a parameter */
using Gradient = float; /* of dx in memory */
using Copy = float; /* of the copy */
