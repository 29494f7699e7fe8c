/* A time step of a recurrent layer (simgen/layers/recurrent/step.py), with sample values. */
#pragma once

enum class Cell { LSTM, GRU, RELU, TANH };

#define KERNEL recurrent_step_sample
constexpr unsigned BLOCK = 256;
constexpr Cell CELL = Cell::LSTM;
constexpr unsigned GATES = 4;
constexpr unsigned BATCH = 16;
constexpr unsigned HIDDEN = 512; /* units */
constexpr bool FIRST = false; /* whether there is no step before */
constexpr unsigned UNITS = 16; /* of a work-group */
constexpr unsigned SAMPLES = 16; /* of a work-group */
constexpr unsigned HELD = 4; /* samples of a work-item */
constexpr unsigned SLICES = 4; /* work-items that share a sum */
constexpr unsigned WIDTH = 4; /* elements of a load from h and the weights */
constexpr bool SKIPS = false; /* whether x is (BATCH, HIDDEN), for all gates; otherwise (BATCH, GATES, HIDDEN) */
using InputElement = float; /* of x */
using WeightElement = float; /* of weights and biases */
#define WITH_BIAS 1
#define WITH_INPUT_BIAS 0
#define WITH_GATES 1
#define WITH_CELL 1
#define WITH_CANDIDATE 0
