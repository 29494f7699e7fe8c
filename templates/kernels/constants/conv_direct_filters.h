/* The work of an item of a gradient of filters (FilterMap in simgen/layers/conv/direct.py), with
 * sample values. */
#pragma once

#define KERNEL conv_direct_filters_sample
constexpr unsigned BLOCK = 64;
constexpr unsigned FILTERS = 6; /* of a work-item */
constexpr unsigned OCTETS = 1;  /* work-items that share the filters of a work-group */
constexpr unsigned SPAN = 3;    /* taps of a run */
constexpr unsigned SPANS = 1;   /* runs of one row of a filter */
constexpr unsigned PAIRS = 9;   /* (channel, row of the filter), of a work-group */
constexpr unsigned SLICES = 7;  /* work-items that share the pixels of one tile */
constexpr bool SPARSE = false;  /* whether pixels of one tap are loaded by themselves */
constexpr unsigned WIDTH = 8;   /* pixels of a line, a multiple of 4 */
constexpr unsigned SEGMENTS = 1; /* lines of a row */
constexpr unsigned LINES = 10;  /* that LDS holds */
/* pixels that are loaded before the first one, so that loads of 4 are aligned */
constexpr unsigned LEAD = 0;
constexpr unsigned HELD = 8;    /* pixels that a work-item holds */
constexpr unsigned IMAGE_WIDTH = 12;  /* pixels that a line meets */
/* floats from pair to pair: rows of float4s in different banks */
constexpr unsigned IMAGE_PITCH = 124;
constexpr unsigned RESULT_PITCH = 84; /* floats from filter to filter */
constexpr unsigned VECTOR = 1;        /* elements of a load from the image */
constexpr unsigned RESULT_VECTOR = 1; /* elements of a load from the result */
constexpr unsigned CHUNK = 10;        /* lines of a work-group */
constexpr unsigned SPLITS = 1;        /* partial sums */
using SourceElement = float;
using ResultElement = float;
