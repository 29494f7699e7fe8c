#pragma once

#define KERNEL quantise_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned GROUPS = 100; /* groups of the tensor */
constexpr unsigned GROUP = 32; /* elements of a group, a multiple of 16 */
constexpr unsigned LANES = 2; /* work-items of a group, a power of two */
constexpr float LARGEST = 6.0f; /* the largest number without a scale */
constexpr float INVERSE = 0.166666672f; /* 1 / LARGEST */
constexpr unsigned TOP = 2; /* the exponent of the largest number */
using Element = float; /* of x in memory */
using Number = I4; /* of y */
using Scale = Power; /* of a group's factor */
constexpr float LARGEST_SCALE = 0.0f; /* of narrow scales that are no powers of two */
