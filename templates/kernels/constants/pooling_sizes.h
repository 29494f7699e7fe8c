#pragma once

constexpr unsigned PLANES = 128; /* images times channels */
constexpr unsigned H = 55; /* of a plane of x */
constexpr unsigned W = 56;
constexpr unsigned P = 28; /* windows along the height */
constexpr unsigned Q = 28; /* and along the width */
constexpr unsigned KERNEL_H = 3; /* of a window */
constexpr unsigned KERNEL_W = 3;
constexpr unsigned PAD_H = 1;
constexpr unsigned PAD_W = 1;
constexpr unsigned STRIDE_H = 2;
constexpr unsigned STRIDE_W = 2;
using Element = float; /* of x, y and their gradients in memory */
