/* Fourier transforms of images (simgen/layers/conv/fft.py), with sample values. */
#pragma once

#define KERNEL conv_fft_source_sample
constexpr unsigned BLOCK = 64;
constexpr unsigned BATCH = 2;
constexpr unsigned HELD = 2; /* tiles that spectra have room for */
constexpr unsigned CHANNELS = 3;
constexpr unsigned HEIGHT = 5;
constexpr unsigned WIDTH = 7;
constexpr unsigned DOWN = 1; /* tiles of a plane */
constexpr unsigned ACROSS = 1;
constexpr unsigned STEP_H = 14; /* from one tile to the next */
constexpr unsigned STEP_W = 14;
constexpr int START_H = -1; /* where the first one begins */
constexpr int START_W = -1;
/* pixels of a tile that are not taken as zeros, from its first on */
constexpr unsigned TAKEN_H = 16;
constexpr unsigned TAKEN_W = 16;
constexpr bool FACTORS = false; /* whether the spectra are scaled, as factors of others */
constexpr bool PAIRS = false; /* whether real and imaginary parts of a tile lie side by side */
