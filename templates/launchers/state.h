/* What finished steps leave, so that a run that is ended can be continued, and the steps of a
 * part of the workload can be run by themselves (simgen/tensors/state_file.py has the layout).
 * Valid as C and as C++.
 *
 * A step's mark is written after its tensors: whatever ends a run, at whatever moment, the
 * tensors of marked steps are whole. No step writes what an earlier step's mark vouches for
 * while a step that is not marked yet needs it: tensors that share a place have no step in
 * common. */
#ifndef SIMGEN_STATE_H
#define SIMGEN_STATE_H
#include "plan.h"

enum { TO_RUN = 0, FINISHED = 1, LEFT_OUT = 2, GIVEN = 3 }; /* marks */
enum { SYS_PWRITE = 18 };

static struct {
    char magic[8]; /* "simgenS1" */
    u8 id[32];     /* as of the data file */
    u8 zero[24];
    u8 mark[STEPS];
} state_head __attribute__((aligned(8)));

static long state_file = -1;

/* Opens the state of a run that is to be continued: 1; or begins one: 0. */
static inline int open_state(const char *path)
{
    state_file = sys(SYS_OPEN, (long)path, 02 | 0100 /* O_RDWR O_CREAT */, 0644, 0, 0, 0);
    if (state_file < 0)
        stop(EXIT_NO_OUTPUT, path, "cannot be made; check the folder and its permissions");
    const u64 *id = (const u64 *)data_id, *has = (const u64 *)state_head.id;
    const long nbytes = sizeof state_head;
    const long got = sys(SYS_PREAD, state_file, (long)&state_head, nbytes, 0, 0, 0);
    if (got == 0) {
        memcpy(state_head.magic, "simgenS1", 8);
        memcpy(state_head.id, data_id, 32);
        if (sys(SYS_PWRITE, state_file, (long)&state_head, nbytes, 0, 0, 0) != nbytes)
            stop(EXIT_NO_OUTPUT, path, "cannot be written; check the space on the disk");
        return 0;
    }
    if (got != nbytes || *(const u64 *)state_head.magic != *(const u64 *)"simgenS1")
        stop(EXIT_DATA_SIZE, path, "not the state of a run; run it without --resume");
    if (has[0] != id[0] || has[1] != id[1] || has[2] != id[2] || has[3] != id[3])
        stop(EXIT_DATA_ID, path, "of another workload or seed; run it without --resume");
    return 1;
}

/* The tensors of finished steps and of those that are not run here, but read from, come back,
 * and the guards behind them. */
static inline void load_state(const char *path, u8 *to)
{
    for (u32 i = 0; i < STEP_TENSORS; i++) {
        const struct step_tensor *each = &step_tensors[i];
        const u8 mark = state_head.mark[each->step];
        if ((mark == FINISHED || mark == GIVEN)
            && !read_all(state_file, to + each->offset, each->nbytes, each->in_file))
            stop(EXIT_DATA_SIZE, path,
                "lacks a tensor of a finished layer; run it without --resume");
    }
}

/* Linux moves at most 2 GiB at a time: what is left of a large tensor. */
__attribute__((noinline)) static int leave_rest(
    const struct step_tensor *each, const u8 *from, long put)
{
    u64 done = (u64)put;
    while (put > 0 && done < each->nbytes) {
        put = sys(SYS_PWRITE, state_file, (long)(from + each->offset + done),
                  (long)(each->nbytes - done), (long)(each->in_file + done), 0, 0);
        done += (u64)put;
    }
    return put > 0;
}

/* Keeps what a step has just written, where there is a state. The steps come in their order.
 * Written for few instructions: they are simulated. */
static inline void leave(const char *path, const u8 *from, u32 step)
{
    static const u8 finished = FINISHED;
    static const struct step_tensor *each = step_tensors;
    const struct step_tensor *const end = step_tensors + STEP_TENSORS;
    if (state_file < 0)
        return;
    while (each < end && each->step < step)
        each++;
    for (; each < end && each->step == step; each++) {
        const long put = sys(SYS_PWRITE, state_file, (long)(from + each->offset),
            (long)each->nbytes, (long)each->in_file, 0, 0);
        if (put != (long)each->nbytes && !leave_rest(each, from, put))
            stop(EXIT_NO_OUTPUT, path, "cannot be written; check the space on the disk");
    }
    if (sys(SYS_PWRITE, state_file, (long)&finished, 1, 64 + step, 0, 0) != 1)
        stop(EXIT_NO_OUTPUT, path, "cannot be written; check the space on the disk");
}

#endif
