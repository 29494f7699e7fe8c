/* Winograd's transformation of gradients of results (simgen/layers/conv/winograd.py), with
 * sample values. */
#pragma once

#define KERNEL conv_winograd_result_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned BATCH = 2;
constexpr unsigned CHANNELS = 6;
constexpr unsigned ROWS_COUNT = 5;
constexpr unsigned COLUMNS_COUNT = 7;
