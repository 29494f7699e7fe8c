#pragma once

#define KERNEL dropout_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 1001; /* elements */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
constexpr unsigned RUNS = 1; /* in which it has so many each (runs.h) */
constexpr bool ALL = false; /* are dropped */
/* what is not ALL: so many of 2^32 are dropped; 0: none */
constexpr unsigned THRESHOLD = 2147483648;
constexpr float SCALE = 2.0f; /* of those that are kept */
constexpr unsigned KEY = 0; /* of the random numbers */
using Element = float; /* of tensors in memory */
