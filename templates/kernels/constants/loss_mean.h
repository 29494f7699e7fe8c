#pragma once

#define KERNEL loss_mean_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned PARTS = 100; /* sums */
constexpr float SHARE = 0.01f; /* of each loss in the mean */
#define WITH_COUNTS 0 /* how many losses there are, and so the share, stands in memory */
constexpr unsigned FINALS = 16; /* partial results at the end of a reduction, at most */
