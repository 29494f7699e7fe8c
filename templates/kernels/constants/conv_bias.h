/* The gradient of a bias (simgen/layers/conv/bias.py), with sample values. */
#pragma once

#define KERNEL conv_bias_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned BATCH = 2; /* extents of dy */
constexpr unsigned FILTERS = 6;
constexpr unsigned PIXELS = 64;
constexpr unsigned CHUNK = 128; /* elements of a channel that a work-group adds up */
constexpr unsigned SPLITS = 1;  /* work-groups of a channel */
constexpr unsigned VECTOR = 4;  /* elements of a load */
using ResultElement = float;
