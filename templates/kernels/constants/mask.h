#pragma once

#define KERNEL mask_sample
#define WITH_LENGTHS 1
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 1572864; /* elements */
constexpr unsigned SAMPLE = 196608; /* elements of a sample */
constexpr unsigned QUERIES = 128;
constexpr unsigned KEYS = 128;
constexpr unsigned VECTOR = 4; /* elements of a work-item */
constexpr float HIDDEN = 0.0f; /* of what is not seen */
using Element = float; /* of tensors in memory */
