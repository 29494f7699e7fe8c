/* What both directions of a time step of a recurrent layer share, with sample values. */
#pragma once

#define KERNEL recurrent_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned HIDDEN = 512; /* units */
constexpr unsigned UNITS = 16; /* of a work-group */
constexpr unsigned SAMPLES = 16; /* of a work-group */
constexpr unsigned HELD = 4; /* samples of a work-item */
constexpr unsigned OWN = 1; /* units of a work-item */
constexpr unsigned SLICES = 4; /* work-items that share a sum */
constexpr unsigned DEPTH = 64; /* of k, in LDS at a time */
using WeightElement = float; /* of weights and biases */
#define WITH_MATRIX 0 /* whether matrix instructions multiply, factors of WeightElement */
/* whether a piece of k is on its way while the one before it is multiplied */
#define WITH_PREFETCH 0
/* whether LDS has a work-group's weights, along all of k, from the first step of a launch on */
#define WITH_HELD 0
