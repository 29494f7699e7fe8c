/* Products of transformed tiles (simgen/layers/conv/transform_tiles.py), with sample values. */
#pragma once

#define KERNEL conv_products_sample
constexpr unsigned BLOCK = 64;
/* elements of a transformed tile that are multiplied by themselves */
constexpr unsigned PLACES = 16;
constexpr unsigned GROUPS = 1;  /* of channels */
constexpr bool BY_COMPLEX = false; /* whether they are of complex numbers (complex.h) */
constexpr unsigned M = 6;       /* extents of a product */
constexpr unsigned N = 40;
constexpr unsigned K = 3;
constexpr unsigned SPLITS = 1; /* partial products, one behind the other */
constexpr unsigned CHUNK = 3;  /* of k, for a work-group */
