#pragma once

#define WITH_GIVEN 1 /* statistics are given; otherwise they are those of the batch */
constexpr bool FROZEN = false; /* the given ones are running ones: the mean and the variance */
constexpr float EPSILON = 1e-05f; /* where 1 / sqrt(variance + EPSILON) is not given */
