#pragma once

#define KERNEL batch_norm_end_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned FEATURES = 64;
constexpr unsigned ELEMENTS = 12544; /* of each feature */
constexpr unsigned CHUNKS = 4; /* of a feature */
constexpr unsigned TILE = 4096; /* elements of a chunk, */
constexpr unsigned LAST = 256; /* and of the last one */
constexpr unsigned LANES = 64; /* features of a work-group */
constexpr unsigned SLICES = 4; /* work-items of a feature */
constexpr unsigned FINALS = 16; /* partial results at the end of a reduction, at most */
