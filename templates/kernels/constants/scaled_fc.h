#pragma once

#define KERNEL scaled_fc_sample
constexpr unsigned BLOCK = 64;
constexpr unsigned M = 33; /* extents of the product */
constexpr unsigned N = 20;
constexpr unsigned K = 64;
/* partial sums; if there is more than one, they are stored as they are */
constexpr unsigned SPLITS = 1;
constexpr unsigned CHUNK = 64; /* of k, for a work-group */
constexpr unsigned LEFT_GROUP = 0; /* elements of x along k with one scale; 0: there are none */
constexpr unsigned RIGHT_GROUP = 32; /* the same of w */
constexpr unsigned SHARING = 1; /* rows of w that have the same scales */
using LeftNumber = I4; /* of x and w */
using RightNumber = I4;
using LeftScale = float; /* of their scales */
using RightScale = float;
using Element = float; /* of y */
#define WITH_LEFT_SCALES 0
