#pragma once

#define KERNEL attention_sum_sample
#define WITH_LOG 1
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 160; /* elements of y */
constexpr unsigned PLACES = 100; /* of a sample */
constexpr unsigned CANDIDATES = 10; /* of a sample */
constexpr float EPSILON = 1e-3f; /* what sums begin with */
constexpr unsigned VECTOR = 1; /* elements of a work-item */
using Element = float; /* of tensors in memory */
