/* A convolution (Geometry in simgen/layers/conv/geometry.py), with sample values: the gradient
 * of 3 x 3 filters. */
#pragma once

constexpr unsigned BATCH = 2;
constexpr unsigned GROUPS = 1;
constexpr unsigned GROUP_CHANNELS = 3; /* of the image, in a group */
constexpr unsigned GROUP_FILTERS = 6;  /* of the result, in a group */
constexpr unsigned IMAGE_H = 5;
constexpr unsigned IMAGE_W = 7;
constexpr unsigned RESULT_H = 5;
constexpr unsigned RESULT_W = 7;
constexpr unsigned KERNEL_H = 3;
constexpr unsigned KERNEL_W = 3;
constexpr int PAD_H = 1;
constexpr int PAD_W = 1;
constexpr unsigned STRIDE_H = 1;
constexpr unsigned STRIDE_W = 1;
constexpr int DILATION_H = 1;
constexpr int DILATION_W = 1;
constexpr bool FLIPPED = false; /* whether filters are stored turned by 180 degrees */
