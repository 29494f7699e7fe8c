/* Of attention by matrix instructions, beside what constants/attention.h says. */
#pragma once

constexpr unsigned DOWN = 1; /* rows of a warp, in 16 */
constexpr unsigned LAUNCH_GROUPS = 2; /* work-groups that a unit shall hold */
/* whether wgmma multiplies, and the launcher gives the kernel tensor maps of q, k and v
 * (attention_warpgroups.h) */
#define TENSOR_MAPS 0
constexpr unsigned STAGES = 2; /* tiles of keys, and of values, that wait in LDS, if so */
constexpr unsigned MOVERS = 0; /* work-items behind these, which move them */
