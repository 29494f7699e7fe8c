#pragma once

#define KERNEL lrn_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned OUTER = 4; /* the tensor is OUTER x AXIS x INNER */
constexpr int AXIS = 96;
constexpr unsigned INNER = 3024; /* elements of a line */
constexpr int WINDOW = 5; /* lines */
constexpr int BEFORE = 2; /* the centre of a window */
constexpr int AFTER = 2;
constexpr unsigned LEFT = 0; /* the same along a line; 0 where windows have one element of it */
constexpr unsigned RIGHT = 0;
constexpr unsigned VECTOR = 4; /* neighbours in a line that a work-item makes */
constexpr int LENGTH = 100; /* lines of a work-item: a multiple of WINDOW */
constexpr float ALPHA = 2e-05f; /* by the elements of a window */
constexpr float BETA = 0.75f;
constexpr float K = 1.0f;
constexpr float MINUS = -3e-05f; /* -2 ALPHA BETA */
using Element = float; /* of x and dy in memory */
using Result = float; /* of y and dx */
