/* What simgen decides (simgen/layers/product/matrix_product.py), with sample values. */
#pragma once

#define KERNEL gemm_sample
constexpr unsigned BLOCK = 64;
constexpr unsigned M = 33; /* extents of the product */
constexpr unsigned N = 20;
constexpr unsigned K = 19;
/* products: work-group z has number z % BATCH, and chunk z / BATCH of its k */
constexpr unsigned BATCH = 1;
/* partial sums; if there is more than one, they are stored as they are */
constexpr unsigned SPLITS = 1;
constexpr unsigned CHUNK = 19; /* of k, for a work-group */
constexpr float ALPHA = 1.0f;
constexpr float BETA = 0.0f;
using LeftElement = float; /* of A, B, what is added, and y */
using RightElement = float;
using AddedElement = float;
using Element = float;
using Total = float; /* what is multiplied and added up */
#define STAGES 0 /* steps that wait in LDS (staged.h); 0: tiles go through registers */
/* whether wgmma multiplies, and the launcher gives the kernel tensor maps of A and B
 * (warpgroups.h) */
#define TENSOR_MAPS 0
#define GROUPS 0 /* work-groups, each of which computes every GROUPS-th tile; 0: as many as tiles */
/* whether two work-groups, one tile below the other, bring B for each other (warpgroups.h) */
#define PAIRED 0
/* elements from a row of A to the next; 0: one lies behind the other */
constexpr unsigned LEFT_PITCH = 0;
constexpr unsigned RIGHT_PITCH = 0;
constexpr unsigned RESULT_PITCH = 0; /* the same of y; c lies as results without it do */
using ScaleElement = float; /* of the scales of B, where it has some */
constexpr unsigned GROUP = 8; /* elements of B along k that share a scale, if so (grouped.h) */
#define WITH_GROUPS 0
#define WITH_C 0
#define WITH_BIAS 0
