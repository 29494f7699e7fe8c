/* What simgen decides (simgen/layers/product/padding.py), with sample values. */
#pragma once

#define KERNEL copy_rows_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned EACH = 8; /* pieces of a work-item: their loads are on their way at once */
#define BOTH 1 /* whether there are two matrices */
constexpr unsigned FIRST_NBYTES = 2; /* of a piece: what is moved at once */
constexpr unsigned FIRST_WIDTH = 1; /* elements of a piece */
constexpr unsigned FIRST_ROWS = 33;
constexpr unsigned FIRST_EXTENT = 19; /* elements from a row to the next */
constexpr unsigned FIRST_PITCH = 64;  /* the same of what is written */
constexpr unsigned SECOND_NBYTES = 4;
constexpr unsigned SECOND_WIDTH = 2;
constexpr unsigned SECOND_ROWS = 20;
constexpr unsigned SECOND_EXTENT = 38;
constexpr unsigned SECOND_PITCH = 64;
