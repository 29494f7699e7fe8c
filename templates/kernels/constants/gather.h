/* A result or the gradient of an image (Gather and Axis in simgen/layers/conv/geometry.py), with
 * sample values: 3 x 3 filters.
 *
 * Row i of the target, 0 <= i < ROWS_COUNT, lies at ROWS_FIRST + ROWS_STEP i of its ROWS_EXTENT
 * rows. Its tap t, t < ROWS_TAPS, takes row ROWS_FILTER_FIRST + ROWS_FILTER_STEP t of the filter
 * and meets row (ROWS_START + ROWS_STRIDE i + ROWS_GAP t) / ROWS_DIVIDE of the source, if that
 * is a whole number in [0, ROWS_SOURCE). The same along columns. */
#pragma once

constexpr unsigned BATCH = 2;
constexpr unsigned GROUPS = 1;
constexpr unsigned GROUP_OUT = 6; /* channels of the target, in a group */
constexpr unsigned GROUP_IN = 3;  /* channels of the source, in a group */
constexpr unsigned KERNEL_W = 3;  /* of the filters, as they are stored */
/* elements of the filters from an output channel, an input channel and a group to the next */
constexpr unsigned OUT_STRIDE = 27;
constexpr unsigned IN_STRIDE = 9;
constexpr unsigned GROUP_STRIDE = 162;
constexpr unsigned ROWS_COUNT = 5;
constexpr unsigned ROWS_EXTENT = 5;
constexpr unsigned ROWS_FIRST = 0;
constexpr unsigned ROWS_STEP = 1;
constexpr unsigned ROWS_SOURCE = 5;
constexpr int ROWS_START = -1;
constexpr int ROWS_STRIDE = 1;
constexpr unsigned ROWS_TAPS = 3;
constexpr int ROWS_GAP = 1;
constexpr unsigned ROWS_DIVIDE = 1;
constexpr unsigned ROWS_FILTER_FIRST = 0;
constexpr int ROWS_FILTER_STEP = 1;
constexpr unsigned COLUMNS_COUNT = 7;
constexpr unsigned COLUMNS_EXTENT = 7;
constexpr unsigned COLUMNS_FIRST = 0;
constexpr unsigned COLUMNS_STEP = 1;
constexpr unsigned COLUMNS_SOURCE = 7;
constexpr int COLUMNS_START = -1;
constexpr int COLUMNS_STRIDE = 1;
constexpr unsigned COLUMNS_TAPS = 3;
constexpr int COLUMNS_GAP = 1;
constexpr unsigned COLUMNS_DIVIDE = 1;
constexpr unsigned COLUMNS_FILTER_FIRST = 0;
constexpr int COLUMNS_FILTER_STEP = 1;
