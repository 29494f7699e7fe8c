#pragma once

#define KERNEL expert_blocks_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned PAIRS = 100; /* of a token and an expert */
constexpr unsigned EXPERTS = 128;
constexpr unsigned ROWS = 16; /* places of a block */
constexpr unsigned PLACES = 1600; /* of all blocks */
/* experts that have weights of their own; if not all, those that have pairs do in turn */
constexpr unsigned STORED = 128;
