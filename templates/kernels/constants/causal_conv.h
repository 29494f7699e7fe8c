#pragma once

#define KERNEL causal_conv_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SAMPLES = 2;
constexpr unsigned TOKENS = 64; /* of a sample */
constexpr unsigned CHANNELS = 256;
constexpr unsigned WIDTH = 4; /* tokens that a result is made of */
constexpr unsigned RUN = 4; /* tokens of a work-item */
constexpr unsigned VECTOR = 4; /* channels of a work-item */
constexpr bool SILU = false; /* s / (1 + exp(-s)) of each sum s */
#define WITH_BIAS 1
#define WITH_STATE 1 /* tokens before those of x; otherwise they are 0 */
#define WITH_LAST 1 /* the last tokens are written too */
using Element = float; /* of tensors in memory */
