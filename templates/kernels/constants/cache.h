#pragma once

#define KERNEL cache_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned TOKENS = 64; /* that may go to pages */
constexpr unsigned PAGE = 16; /* tokens of a page */
constexpr unsigned PAGES = 6;
constexpr unsigned KEY_ROW = 128; /* elements of the keys of a token */
constexpr unsigned VALUE_ROW = 128; /* elements of its values */
constexpr unsigned VECTOR = 4; /* elements of an access */
constexpr float KEY_FACTOR = 1.0f; /* of keys */
constexpr float VALUE_FACTOR = 1.0f; /* of values */
using Element = float; /* of keys and values */
using Stored = float; /* of pages */
