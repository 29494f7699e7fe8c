/* A time step of a recurrent layer (simgen/layers/recurrent/step.py), with sample values. */
#pragma once

enum class Cell { LSTM, GRU, RELU, TANH };

constexpr Cell CELL = Cell::LSTM;
constexpr unsigned GATES = 4;
constexpr unsigned BATCH = 16;
constexpr bool FIRST = false; /* whether there is no step before */
constexpr unsigned WIDTH = 4; /* elements of a load from h and the weights */
/* whether x is (BATCH, HIDDEN), for all gates; otherwise (BATCH, GATES, HIDDEN) */
constexpr bool SKIPS = false;
using InputElement = float; /* of x */
#define WITH_BIAS 1
#define WITH_INPUT_BIAS 0
#define WITH_GATES 1
#define WITH_CELL 1
#define WITH_CANDIDATE 0
