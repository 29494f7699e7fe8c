#pragma once

#define KERNEL cast_sample
constexpr unsigned BLOCK = 256;
using Source = float; /* of what is read */
using Target = float; /* of what is written */
constexpr float SCALE = 1.0f; /* of what is read, for what is written */
constexpr unsigned SIZE = 1000; /* elements */
constexpr unsigned VECTOR = 4; /* elements of a work-item */
