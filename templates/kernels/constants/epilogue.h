/* What follows a sum (simgen/layers/epilogue.py), with sample values. */
#pragma once

#define WITH_BATCH_NORM 0
constexpr float BN_EPSILON = 1e-05f;
constexpr Activation ACTIVATION = Activation::NONE;
constexpr float ACTIVATION_CEILING = 6.0f; /* of clipped_relu */
constexpr float ACTIVATION_ALPHA = 1.0f;   /* of elu */
/* of sums of 8-bit floats, which stand for a scale times themselves */
constexpr float FACTOR = 1.0f;
/* Of sums of integers (simgen/layers/requantisation.py). */
constexpr bool REQUANTISED = false;
#define WITH_CHANNEL_SCALES 0
constexpr float REQUANTISATION_SCALE = 1.0f;
constexpr int ZERO_POINT = 0;
