/* The windows of im2col (simgen/layers/conv/implicit_gemm.py), with sample values; as in
 * constants/gather.h. */
#pragma once

#define KERNEL conv_windows_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned BATCH = 2;
constexpr unsigned GROUPS = 1;
constexpr unsigned GROUP_IN = 3;
constexpr unsigned ROWS_COUNT = 5;
constexpr unsigned ROWS_SOURCE = 5;
constexpr int ROWS_START = -1;
constexpr int ROWS_STRIDE = 1;
constexpr unsigned ROWS_TAPS = 3;
constexpr int ROWS_GAP = 1;
constexpr unsigned ROWS_DIVIDE = 1;
constexpr unsigned COLUMNS_COUNT = 7;
constexpr unsigned COLUMNS_SOURCE = 7;
constexpr int COLUMNS_START = -1;
constexpr int COLUMNS_STRIDE = 1;
constexpr unsigned COLUMNS_TAPS = 3;
constexpr int COLUMNS_GAP = 1;
constexpr unsigned COLUMNS_DIVIDE = 1;
constexpr unsigned WIDE = 1; /* neighbouring elements of a work-item */
using SourceElement = float;
