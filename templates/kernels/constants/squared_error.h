#pragma once

#define KERNEL squared_error_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SAMPLES = 100;
constexpr unsigned SIZE = 1000; /* elements of a sample */
constexpr unsigned VECTOR = 4; /* elements of an access */
constexpr float SHARE = 0.001f; /* of each square in the mean of a sample */
constexpr unsigned FINALS = 16; /* partial results at the end of a reduction, at most */
using Element = float; /* of tensors in memory */
