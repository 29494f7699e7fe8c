/* A time step of a recurrent layer, backward (simgen/layers/recurrent/step.py), with sample
 * values. */
#pragma once

enum class Cell { LSTM, GRU, RELU, TANH };

constexpr Cell CELL = Cell::LSTM;
constexpr unsigned GATES = 4;
constexpr unsigned BATCH = 16;
constexpr bool FIRST = false; /* whether there is no step behind */
constexpr bool START = false; /* whether there is no step before */
constexpr unsigned LEFT_WIDTH = 4; /* elements of a load from the gradients behind */
constexpr unsigned WIDTH = 4; /* of one from the weights */
#define WITH_GATES 1
#define WITH_CELL 1
#define WITH_CANDIDATE 0
#define WITH_DX 0
/* whether gradients of the sums are stored as WeightElement beside those that go on */
#define WITH_ROUNDED_GATES 0
/* whether what behind the last step has gradients too: dhy, and in place of the carry behind it
 * dcy */
#define WITH_FINAL 0
