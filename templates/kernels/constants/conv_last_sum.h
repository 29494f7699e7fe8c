/* The sum of partial gradients of filters (simgen/layers/conv/channels_last.py), with sample
 * values. */
#pragma once

#define KERNEL conv_last_sum_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned TERMS = 3;
constexpr unsigned FILTERS = 6;
constexpr unsigned CHANNELS = 3;
constexpr unsigned TAPS = 9;
constexpr bool FLIPPED = false; /* whether filters are stored turned by 180 degrees */
constexpr unsigned SLICES = 1;  /* work-items that share a sum */
using Element = float;
