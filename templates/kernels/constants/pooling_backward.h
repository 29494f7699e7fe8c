#pragma once

#define KERNEL pooling_backward_sample
/* of the maximum: a parameter; without, windows share what they have in equal parts */
#define WITH_PLACES 0
constexpr unsigned BLOCK = 256;
/* elements of a row of dx that a work-item makes: 1, or 4 with STRIDE_W 1, 2 or 4 */
constexpr unsigned VECTOR = 4;
