#pragma once

#define KERNEL concat_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SAMPLES = 100;
constexpr unsigned ROWS[] = {1000, 1000, 1000}; /* elements of a sample in each input */
/* where they begin in a sample of the whole; its end */
constexpr unsigned STARTS[] = {0, 1000, 2000, 3000};
/* where each input's work-groups begin; their end */
constexpr unsigned GROUPS[] = {0, 98, 196, 294};
constexpr unsigned VECTOR = 4; /* elements of an access */
constexpr unsigned EACH = 4; /* elements of a work-item */
#define EACH_INPUT(DO) DO(0) DO(1) DO(2)
using Element = float; /* of tensors in memory */
