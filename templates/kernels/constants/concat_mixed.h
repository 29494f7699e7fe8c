#pragma once

#define KERNEL concat_mixed_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SAMPLES = 2;
constexpr unsigned ROWS[] = {3, 2, 5}; /* elements of each input that lie side by side */
constexpr unsigned STARTS[] = {0, 3, 5, 10}; /* where they lie in a sample of the whole; its size */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
#define EACH_INPUT(DO) DO(0) DO(1) DO(2)
using Element = float; /* of tensors in memory */
