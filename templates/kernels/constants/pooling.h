#pragma once

enum class Op { MAX, MEAN };

#define KERNEL pooling_sample
constexpr unsigned BLOCK = 256;
constexpr Op OP = Op::MAX;
constexpr unsigned LOAD = 4; /* elements of a load */
constexpr unsigned RESULTS = 2; /* neighbours in a row of y that a work-item makes */
constexpr unsigned ROWS = 2; /* and in a column */
