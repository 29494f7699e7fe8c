#pragma once

#define KERNEL rearrange_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 3136; /* elements of y */
constexpr unsigned FIRST = 0; /* where in x its first one lies */
constexpr unsigned EXTENTS[] = {4, 28, 28}; /* of y */
constexpr unsigned STRIDES[] = {784, 1, 28}; /* elements of x from one to the next */
constexpr unsigned BEFORE[] = {0, 0, 0}; /* elements along each axis before x */
constexpr unsigned LIMITS[] = {0, 0, 0}; /* elements of x along it; 0: all of y's are */
constexpr float VALUE = 0.0f; /* of those that are none of x */
constexpr unsigned VECTOR = 1; /* elements of a work-item */
using Element = float; /* of tensors in memory */
