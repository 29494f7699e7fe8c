#pragma once

#define KERNEL delta_heads_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SAMPLES = 1;
constexpr unsigned TOKENS = 100; /* of a sample */
constexpr unsigned KEY_HEADS = 2;
constexpr unsigned VALUE_HEADS = 4;
constexpr unsigned KEY_SIZE = 64; /* elements of a key */
constexpr unsigned VALUE_SIZE = 64; /* elements of a value */
constexpr unsigned VECTOR = 4; /* elements of an access */
using Element = float; /* of what is not float32 in any case */
