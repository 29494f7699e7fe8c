#pragma once

#define KERNEL attention_join_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned ROWS = 1024; /* of all heads */
constexpr unsigned FOURS = 16; /* of a row: parts of it that work-items have */
constexpr unsigned VALUE_DIM = 64; /* elements of a row */
constexpr unsigned CHUNKS = 4;
using Element = float; /* of results in memory */
