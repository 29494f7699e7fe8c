/* Fourier transforms back to results (simgen/layers/conv/fft.py), with sample values. */
#pragma once

#define KERNEL conv_fft_target_sample
constexpr unsigned BLOCK = 64;
constexpr unsigned BATCH = 2;
constexpr unsigned HELD = 2; /* tiles that spectra have room for */
constexpr unsigned CHANNELS = 6;
constexpr unsigned ROWS_COUNT = 5;
constexpr unsigned COLUMNS_COUNT = 7;
constexpr unsigned DOWN = 1; /* tiles of a plane */
constexpr unsigned ACROSS = 1;
constexpr unsigned STEP_H = 14; /* results of a tile */
constexpr unsigned STEP_W = 14;
constexpr unsigned STORE_WIDTH = 1; /* elements of a store */
#define WITH_BIAS 1
