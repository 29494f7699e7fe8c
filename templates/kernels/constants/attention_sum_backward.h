#pragma once

#define KERNEL attention_sum_backward_sample
#define WITH_LOG 1
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 1600; /* elements of dx */
constexpr unsigned PLACES = 100; /* of a sample */
constexpr unsigned CANDIDATES = 10; /* of a sample */
constexpr unsigned VECTOR = 1; /* elements of a work-item */
using Element = float; /* of tensors in memory */
