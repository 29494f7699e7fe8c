#pragma once

#define KERNEL batch_norm_apply_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned FEATURES = 64;
constexpr unsigned SIZE = 200704; /* elements of the tensor */
constexpr unsigned INNER = 784; /* elements of a feature that lie side by side */
constexpr unsigned ELEMENTS = 3136; /* of each feature */
constexpr unsigned EACH = 4; /* elements of a work-item */
using Element = float; /* of x, y and their gradients in memory */
