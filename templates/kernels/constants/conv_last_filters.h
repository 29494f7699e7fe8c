/* The gradient of filters, of tensors with channels last (simgen/layers/conv/channels_last.py),
 * with sample values. */
#pragma once

#define KERNEL conv_last_filters_sample
constexpr unsigned BLOCK = 128;
/* steps that wait in LDS (staged.h): more than one, but in a kernel that is no machine's */
#define STAGES 0
/* whether wgmma multiplies, and the launcher gives the kernel tensor maps of both factors
 * (warpgroups.h) */
#define TENSOR_MAPS 0
constexpr unsigned SOURCE_HELD = 8; /* channels of the image, with zeros: a multiple of 8 */
constexpr unsigned RESULT_HELD = 8; /* the same of the result's gradient */
/* columns of the product for each tap: channels, and what is not stored */
constexpr unsigned OF_TAP = 8;
/* whether both factors are as they are stored: one tap meets all pixels */
constexpr bool PLANES = false;
constexpr unsigned SPLITS = 1; /* partial sums */
constexpr unsigned CHUNK = 128; /* of k, for a work-group */
using SourceElement = float;
using ResultElement = float;
using Element = float;
using Total = float; /* what is multiplied and added up */
