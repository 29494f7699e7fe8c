/* How a work-group's items lie over the inputs of a concatenation, in both passes. */
#pragma once
#include "prelude.h"
#include "constants/concat.h"

constexpr unsigned PARTS = sizeof(ROWS) / sizeof(ROWS[0]);
constexpr unsigned SAMPLE = STARTS[PARTS]; /* elements of a sample of the whole */
constexpr unsigned GROUP = BLOCK * EACH; /* elements of a work-group */
