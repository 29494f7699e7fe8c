#pragma once

#define KERNEL pooling_backward_max_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned LOAD = 4; /* elements of a load */
constexpr unsigned RESULTS = 2; /* windows in a row that a work-item searches at a time */
/* elements of dx that it makes at a time: a multiple of STRIDE_W, or 1 */
constexpr unsigned VECTOR = 4;
constexpr unsigned TILE_PLANES = 1; /* elements of dx that a work-group makes */
constexpr unsigned TILE_H = 55;
constexpr unsigned TILE_W = 56;
/* Windows that hold an element of a tile: in each direction the first one is so many before that
 * which begins with the tile. At the edges of the image some of them do not exist. */
constexpr unsigned WINDOWS_P = 28;
constexpr unsigned WINDOWS_Q = 28;
constexpr unsigned BEFORE_P = 0;
constexpr unsigned BEFORE_Q = 0;
