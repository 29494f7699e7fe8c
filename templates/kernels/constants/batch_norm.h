#pragma once

#define KERNEL batch_norm_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned FEATURES = 64; /* the tensor is (ELEMENTS / INNER, FEATURES, INNER) */
constexpr unsigned INNER = 784; /* elements of a feature that lie side by side */
constexpr unsigned ELEMENTS = 3136; /* of each feature */
constexpr unsigned LANES = 1; /* features of a work-group */
constexpr unsigned SLICES = 256; /* work-items of a feature */
constexpr unsigned VECTOR = 4; /* elements of an access */
constexpr unsigned HELD = 16; /* elements of a work-item */
constexpr unsigned CHUNKS = 1; /* work-groups of a feature */
constexpr unsigned LAST = 3136; /* elements of the last chunk */
constexpr unsigned FINALS = 16; /* partial results at the end of a reduction, at most */
using Element = float; /* of x, y and their gradients in memory */
