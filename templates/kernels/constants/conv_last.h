/* A convolution of images with channels last (simgen/layers/conv/channels_last.py), with sample
 * values. */
#pragma once

#define KERNEL conv_last_sample
constexpr unsigned BLOCK = 128;
/* steps that wait in LDS (staged.h): more than one, but in a kernel that is no machine's */
#define STAGES 0
/* whether wgmma multiplies, and the launcher gives the kernel tensor maps of both factors
 * (warpgroups.h) */
#define TENSOR_MAPS 0
/* work-groups, each of which computes every STREAMS-th tile; 0: as many as tiles */
#define STREAMS 0
constexpr unsigned SOURCE_HELD = 8;     /* channels of the source, with zeros: a multiple of 8 */
/* the filters are (taps, rows, columns); along m lie its columns, or its rows */
constexpr unsigned FILTER_ROWS = 6;
constexpr unsigned FILTER_COLUMNS = 8;
constexpr unsigned OF_TAP = 8;          /* k of a tap: channels, and zeros */
/* of a phase: rows and columns of the target that it writes for each of its own, others with
 * zeros */
constexpr unsigned ROWS_FILL = 1;
constexpr unsigned COLUMNS_FILL = 1;
/* whether the source is as it is stored, and tiles lie within a sample */
constexpr bool PLANES = false;
/* whether what it writes beside its columns is another phase, of these taps; bias and all are of
 * none */
constexpr bool TWINS = false;
constexpr unsigned TWIN_TAPS = 0;
constexpr int TWIN_START = 0;
constexpr unsigned TWIN_FILTER_FIRST = 0;
constexpr unsigned SPLITS = 1; /* partial sums; if there is more than one, the kernel stores them */
constexpr unsigned CHUNK = 128; /* of k, for a work-group */
using SourceElement = float;
using FilterElement = float;
using AddedElement = float; /* of the bias */
using Element = float;
using Total = float; /* what is multiplied and added up */
#define WITH_BIAS 0
