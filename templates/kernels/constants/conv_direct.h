/* The work of an item of a direct convolution (simgen/layers/conv/direct.py), with sample
 * values. */
#pragma once
#define KERNEL conv_direct_sample
constexpr unsigned BLOCK = 64;
constexpr unsigned FILTERS = 6; /* channels of the target, of a work-item */
constexpr unsigned SETS = 1;    /* of neighbouring pixels, a work-group's items apart */
constexpr unsigned WIDE = 4;    /* pixels in a set, side by side in a row */
constexpr unsigned VECTOR = 1;  /* elements of a load from the source */
constexpr unsigned CHUNK = 3;   /* channels of the source whose filters are in LDS at a time */
constexpr bool UNROLLED = true; /* whether rows of taps are, and not only the taps of a row */
#define WITH_BIAS 1
using SourceElement = float;
using FilterElement = float;
using AddedElement = float; /* of the bias */
using Element = float;
using Total = float; /* what is multiplied and added up */
