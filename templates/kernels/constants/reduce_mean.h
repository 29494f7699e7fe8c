#pragma once

#define KERNEL reduce_mean_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 4096; /* elements of y */
constexpr unsigned EXTENT = 50; /* of the axis */
constexpr unsigned INNER = 256; /* elements behind it */
constexpr bool BACKWARD = false; /* whether one element of x goes to EXTENT elements of y */
constexpr float FACTOR = 0.02f; /* 1 / EXTENT */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
constexpr bool TOGETHER = true; /* whether their terms lie side by side */
using Element = float; /* of tensors in memory */
