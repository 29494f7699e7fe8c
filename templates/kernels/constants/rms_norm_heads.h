#pragma once

constexpr unsigned HEADS = 8; /* rows of a token */
constexpr unsigned QUERY_HEADS = 4; /* of queries, the first ones */
constexpr unsigned KEY_HEADS = 2; /* of keys, behind them */
