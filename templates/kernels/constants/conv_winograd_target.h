/* Winograd's transformation to results (simgen/layers/conv/winograd.py), with sample values; as
 * in constants/gather.h. */
#pragma once

#define KERNEL conv_winograd_target_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned BATCH = 2;
constexpr unsigned GROUPS = 1;
constexpr unsigned GROUP_OUT = 6;
constexpr unsigned ROWS_COUNT = 5;
constexpr unsigned COLUMNS_COUNT = 7;
#define WITH_BIAS 1
