#pragma once

#define KERNEL pooling_backward_sample
#define WITH_PLACES 0 /* of the maximum: a parameter; without, windows share what they have in equal parts */
constexpr unsigned BLOCK = 256;
constexpr unsigned VECTOR = 4; /* elements of a row of dx that a work-item makes: 1, or 4 with STRIDE_W 1, 2 or 4 */
