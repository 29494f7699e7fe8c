#pragma once

#define KERNEL momentum_sample
constexpr float RATE = 0.01f;
constexpr float SCALE = 1.0f; /* of dx: 1 / loss scale */
constexpr float DECAY = 0.0005f;
constexpr float MOMENTUM = 0.9f;
#define WITH_VELOCITY 1 /* parameters */
constexpr bool NESTEROV = false;
#define WITH_COPY 0 /* of y, in another type: a parameter */
using Gradient = float; /* of dx in memory */
using Copy = float; /* of the copy */
