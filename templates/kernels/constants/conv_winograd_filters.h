/* Winograd's transformation of filters (simgen/layers/conv/winograd.py), with sample values; as
 * in constants/gather.h. */
#pragma once

#define KERNEL conv_winograd_filters_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned GROUPS = 1;
constexpr unsigned GROUP_OUT = 6;
constexpr unsigned GROUP_IN = 3;
constexpr unsigned KERNEL_W = 3;
constexpr unsigned OUT_STRIDE = 27;
constexpr unsigned IN_STRIDE = 9;
constexpr unsigned GROUP_STRIDE = 162;
constexpr unsigned ROWS_FILTER_FIRST = 0;
constexpr int ROWS_FILTER_STEP = 1;
constexpr unsigned COLUMNS_FILTER_FIRST = 0;
constexpr int COLUMNS_FILTER_STEP = 1;
