#pragma once

/* statistics are running ones: of each feature the mean and the variance */
constexpr bool FROZEN = false;
/* FROZEN; else 1 / sqrt(variance + EPSILON) is given, and not the variance */
constexpr float EPSILON = 0.0f;
