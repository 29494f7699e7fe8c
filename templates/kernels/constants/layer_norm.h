#pragma once

constexpr float INVERSE = 0.00130208337f; /* 1 / AXIS */
constexpr float EPSILON = 1e-05f; /* of the forward pass */
