#pragma once

#define KERNEL adam_sample
constexpr float RATE = 0.001f;
constexpr float SCALE = 1.0f; /* of dx: 1 / loss scale */
constexpr float BETA1 = 0.9f;
constexpr float REST1 = 0.1f; /* 1 - BETA1 */
constexpr float BETA2 = 0.999f;
constexpr float REST2 = 0.001f; /* 1 - BETA2 */
constexpr float EPSILON = 1e-8f;
constexpr float DECAY = 0.0f; /* of x, in its gradient */
constexpr float KEPT = 1.0f; /* of x, in the step */
#define WITH_COPY 0 /* of y, in another type: a parameter */
using Gradient = float; /* of dx in memory */
using Copy = float; /* of the copy */
