/* Winograd's transformation to gradients of filters (simgen/layers/conv/winograd.py), with
 * sample values. */
#pragma once

#define KERNEL conv_winograd_gradient_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned TOTAL = 18;  /* filters of 3 x 3 */
constexpr unsigned SPLITS = 1;  /* partial sums of a product */
constexpr bool FLIPPED = false; /* whether filters are stored turned by 180 degrees */
