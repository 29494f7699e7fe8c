#pragma once

#define KERNEL turn_sample
constexpr unsigned BLOCK = 256;
using Source = float; /* of what is read */
using Target = float; /* of what is written */
constexpr unsigned BATCH = 8; /* matrices */
constexpr unsigned ROWS = 196; /* of a matrix that is read */
constexpr unsigned COLUMNS = 64;
constexpr bool TILED = true; /* or is each result gathered? */
