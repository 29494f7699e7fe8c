#pragma once

constexpr unsigned CHUNK = 64; /* tokens of a chunk */
constexpr float SCALE = 0.125f; /* of results */
