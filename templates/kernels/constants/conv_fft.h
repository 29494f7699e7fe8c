/* Tiles of Fourier transforms (simgen/layers/conv/fft.py), with sample values. */
#pragma once

constexpr unsigned SIZE = 16; /* pixels of a tile along each axis: 8, 16 or 32 */
constexpr unsigned LINES = 8; /* tiles that a work-group transforms */
