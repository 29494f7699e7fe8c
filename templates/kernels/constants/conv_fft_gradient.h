/* Fourier transforms back to gradients of filters (simgen/layers/conv/fft.py), with sample
 * values. */
#pragma once

#define KERNEL conv_fft_gradient_sample
constexpr unsigned BLOCK = 64;
constexpr unsigned FILTERS = 6;
constexpr unsigned GROUP_CHANNELS = 3; /* of a filter */
constexpr unsigned KERNEL_H = 3;
constexpr unsigned KERNEL_W = 3;
constexpr unsigned DILATION_H = 1;
constexpr unsigned DILATION_W = 1;
constexpr bool FLIPPED = false; /* whether filters are stored turned by 180 degrees */
