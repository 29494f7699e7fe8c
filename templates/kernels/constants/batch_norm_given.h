#pragma once

constexpr bool FROZEN = false; /* statistics are running ones: of each feature the mean and the variance */
constexpr float EPSILON = 0.0f; /* FROZEN; else 1 / sqrt(variance + EPSILON) is given, and not the variance */
