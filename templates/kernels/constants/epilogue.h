/* What follows a sum (simgen/layers/epilogue.py), with sample values. */
#pragma once

#define WITH_BATCH_NORM 0
constexpr float BN_EPSILON = 1e-05f;
constexpr Activation ACTIVATION = Activation::NONE;
constexpr float ACTIVATION_CEILING = 6.0f; /* of clipped_relu */
constexpr float ACTIVATION_ALPHA = 1.0f;   /* of elu */
