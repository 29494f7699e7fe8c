#pragma once

#define KERNEL rope_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 65536; /* elements of x */
constexpr unsigned TOKENS = 128; /* of a head */
constexpr unsigned HEADS = 4; /* of a sample */
constexpr unsigned DIM = 64; /* elements of a head */
constexpr unsigned PAIRS = 4; /* that turn, of a head */
/* of each pair, from token to token, in units of 2^-32 */
constexpr unsigned TURNS[] = {683565276, 68356528, 6835653, 683565};
constexpr unsigned VECTOR = 4; /* pairs, or elements that do not turn, of a work-item */
constexpr bool INTERLEAVED = false; /* neighbours are a pair; otherwise those of two halves */
constexpr bool BACK = false; /* turns the other way */
constexpr float FACTOR = 1.0f; /* of cosines and sines */
#define WITH_POSITIONS 0
constexpr unsigned TURNING_HEADS = 4; /* of a sample, which turn: the first ones */
constexpr unsigned AXES = 1; /* positions of a token */
/* of the positions, by which pairs before these turn */
constexpr unsigned ENDS[] = {4};
using Element = float; /* of tensors in memory */
