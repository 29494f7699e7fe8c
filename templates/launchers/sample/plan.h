/* swaps: all that its launcher does not have in common with those of
 * other workloads. Where its tensors lie in the arena, its kernels, its launches in order. */
#ifndef SIMGEN_PLAN_H
#define SIMGEN_PLAN_H
#include "system.h"

#define GPU_ID 2765
#define DISCRETE 0
#define DOORBELL_NBYTES 4
#define RING_HALVES 1
#define MARKS_STEPS 0
#define DUMPS 0
#define QUEUES 1
#define KERNARG_NBYTES 64ul
#define PRIVATE_NBYTES 0ul
#define RELOCATED 0
#define CONFIG "SM7_QV100"
#define SM 70
#define ARCH "gfx902"
#define HOST_MEMORY 0
#define TIMED 0
#define GUEST 0
#define APU 0
#define SIMGEN_SANITIZE 0
#define SIMGEN_OWN 0 /* are the kernels a user's? */
#define SIMGEN_KEEPS 1 /* does what steps leave go to a file? (state.h) */
#define ARENA_NBYTES 24576ul
#define OUTPUTS_OFFSET 8192ul /* the arena from here on is the result */
#define GUARD_NBYTES 4096ul /* of canary after each tensor */
#define INPUTS 1
#define OUTPUTS 2
#define LAUNCHES 2
#define STEPS 2
#define MAX_ARGS 2
#define KERNELS 1

/* Name, where its code begins, bytes of LDS, work-items of a work-group in each dimension. */
#define EACH_KERNEL(DO) \
    DO("swap", 0, 0, 64, 1, 1)

/* What data.h5 must have been made from. */
static const u8 data_id[32] = {0x72, 0xcc, 0x4a, 0x1a, 0xbe, 0xf8, 0x1e, 0x26, 0xd6, 0x36, 0xf3, 0xe9, 0x19, 0x82, 0x3f, 0xbe, 0xef, 0x7f, 0xad, 0x01, 0xac, 0xa5, 0x3f, 0xa6, 0x46, 0xf1, 0x37, 0x5b, 0x1b, 0xf0, 0x4a, 0xef};

struct tensor {
    const char *name;
    u64 offset, nbytes; /* in the arena */
};
static const struct tensor inputs[INPUTS] = {
    { "in.x", 0, 4096 },
};
static const struct tensor outputs[OUTPUTS] = {
    { "swap0.y", 8192, 4096 },
    { "swap1.y", 16384, 4096 },
};

struct launch {
    u32 kernel; /* index, in the order of the workload's kernels */
    u32 step;   /* index of the layer and pass it belongs to */
    u32 grid[3]; /* work-groups */
    u32 block;   /* work-items in a work-group */
    u32 args;
    u64 arg[MAX_ARGS]; /* offsets in the arena: of buffers, or of places in them */
};
static const struct launch launches[LAUNCHES] = {
    /* swap0 fwd: swap(in.x, swap0.y) */
    { 0, 0, {16, 1, 1}, 64, 2, {0, 8192} },
    /* swap1 fwd: swap(swap0.y, swap1.y) */
    { 0, 1, {16, 1, 1}, 64, 2, {8192, 16384} },
};

/* What each step leaves for those after it, and for the result: tensors with their guards, in the
 * order of the steps (state.h). */
#define STATE_HEAD ((64ul + STEPS + 4095) / 4096 * 4096) /* bytes before them in the file */
#define STEP_TENSORS 2
static const struct step_tensor {
    u64 step, offset, nbytes;
    u64 in_file; /* of state.bin */
} step_tensors[STEP_TENSORS] = {
    { 0, 8192, 8192, STATE_HEAD + 0 },
    { 1, 16384, 8192, STATE_HEAD + 8192 },
};

#endif
