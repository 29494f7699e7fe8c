/* Tensors whose channels are made the last axis (simgen/layers/conv/channels_last.py), with
 * sample values. */
#pragma once

#define KERNEL conv_channels_last_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned BATCH = 2;
constexpr unsigned CHANNELS = 3;
constexpr unsigned PIXELS = 35;
constexpr unsigned HELD = 8; /* channels, with zeros: a multiple of 8 */
constexpr unsigned PART = 8; /* channels of a tile: a power of two, from 8 to 64 */
/* What a second tensor is: 0, there is none; else images, or filters. */
#define SECOND 2
constexpr bool FIRST_IS_IMAGES = true; /* or filters */
constexpr bool SECOND_IS_IMAGES = false;
constexpr unsigned SECOND_BATCH = 6; /* filters, or images */
constexpr unsigned SECOND_CHANNELS = 3;
constexpr unsigned SECOND_PIXELS = 9; /* or taps */
constexpr unsigned SECOND_HELD = 8;
constexpr unsigned SECOND_PART = 8;
constexpr unsigned GROUPS_OF_FIRST = 1; /* work-groups that make the first one */
