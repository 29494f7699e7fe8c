#pragma once

#define KERNEL broadcast_sample
constexpr unsigned BLOCK = 256;
constexpr Operation OPERATION = Operation::MULTIPLY;
constexpr unsigned SIZE = 3136; /* elements of y */
constexpr unsigned EXTENTS[] = {4, 28, 28}; /* of y */
/* elements of the first tensor from one to the next */
constexpr unsigned STRIDES0[] = {784, 28, 1};
constexpr unsigned STRIDES1[] = {0, 1, 0}; /* of the second one */
constexpr Way WAY0 = Way::FOUR;
constexpr Way WAY1 = Way::ONCE;
constexpr unsigned VECTOR = 4; /* elements of a work-item */
using Element = float; /* of tensors in memory */
