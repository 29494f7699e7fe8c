/* Winograd's transformation of pixels (simgen/layers/conv/winograd.py), with sample values; as
 * in constants/gather.h. */
#pragma once

#define KERNEL conv_winograd_source_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned BATCH = 2;
constexpr unsigned GROUPS = 1;
constexpr unsigned GROUP_IN = 3;
constexpr unsigned ROWS_COUNT = 5;
constexpr unsigned ROWS_SOURCE = 5;
constexpr int ROWS_START = -1;
constexpr unsigned COLUMNS_COUNT = 7;
constexpr unsigned COLUMNS_SOURCE = 7;
constexpr int COLUMNS_START = -1;
