/* The kernels of a workload (plan.h, kernels.h), and what its launcher (host.cpp)
 * asks about them. */
#define VECTORS __attribute__((target("avx2,fma,f16c")))
#define UNCHECKED __attribute__((no_sanitize("kernel-address", "undefined")))
#pragma clang attribute push(UNCHECKED, apply_to = function)
#include "plan.h"
#if SIMGEN_KEEPS
#include "state.h"
#endif
#pragma clang attribute pop

/* ---- The kernels. Each has its own name space, and its own section for LDS. ---- */
#pragma clang attribute push(VECTORS, apply_to = function)
#include "prelude.h"
#if SIMGEN_OWN
#include "own.h"
#endif
#include "kernels.h"
#pragma clang attribute pop

#pragma clang attribute push(UNCHECKED, apply_to = function)
static_assert(MOST_ITEMS <= 1024, "a work-group has 1024 work-items at most");
#if SIMGEN_SANITIZE
#include "host_sanitizer.h"
#else
#include "host_fibers.h"
#endif

/* Arguments by value: which they are, and their bits, or where the words of a structure are. */
struct value {
    u32 at;
    bool wide;
    u64 bits;
};
#define MOST_ARGUMENTS 128

struct argument { /* becomes a pointer to whatever the kernel takes */
    u64 address;
    template <class T> operator T *() const { return reinterpret_cast<T *>(address); }
#if SIMGEN_OWN
    template <class T> operator T() const
    {
        return *reinterpret_cast<const T *>(
            sizeof(T) > 8 ? address : reinterpret_cast<u64>(&address));
    }
#endif
};
#include "calls.h"
#if SIMGEN_OWN
inline u64 bits_of(const value &of)
{
    return of.wide ? reinterpret_cast<u64>(structures + of.bits) : of.bits;
}
#endif

/* What follows gains nothing from an optimiser, which takes longer for it than for a kernel. */
#pragma clang optimize off
const plan_facts plan = {
    ARENA_NBYTES, OUTPUTS_OFFSET, GUARD_NBYTES, data_id, buffers, BUFFERS, INPUTS, LAUNCHES,
    MOST_ITEMS, CANARY, SIMGEN_KEEPS,
};

launch_facts launch_at(u32 index)
{
    const launch &l = launches[index];
    return { kernels[l.kernel].name, l.step, static_cast<u64>(l.grid[0]) * l.grid[1] * l.grid[2] };
}

void set_launch(u32 index)
{
    const launch &l = launches[index];
    now.what = &kernels[l.kernel];
    now.index = index;
    now.block = l.block;
    static region regions[MAX_ARGS + 1]; /* LDS too */
    now.region = regions;
    now.group = now.regions = 0;
#if SIMGEN_OWN
    static u64 address[MOST_ARGUMENTS];
    u32 at = 0, next = first_values[index];
    const u32 end = first_values[index + 1];
    const u32 *const extents = groups_of[l.kernel];
    simgen_block = { extents[0], extents[1], extents[2] };
    simgen_grid = { l.grid[0], l.grid[1], l.grid[2] };
#else
    static u64 address[MAX_ARGS];
#endif
    arguments = address;
    for (u32 i = 0; i < 3; i++)
        now.grid[i] = l.grid[i];
    for (u32 i = 0; i < l.args; i++) {
#if SIMGEN_OWN
        for (; next < end && values[next].at == at; next++)
            address[at++] = bits_of(values[next]);
        address[at++] = reinterpret_cast<u64>(arena + l.arg[i]);
#else
        address[i] = reinterpret_cast<u64>(arena + l.arg[i]);
#endif
        const buffer &b = buffers[tensors[index][i]];
        const u64 start = reinterpret_cast<u64>(arena + b.offset);
        now.region[now.regions++] = { start, start + b.nbytes, &b };
    }
#if SIMGEN_OWN
    for (; next < end; next++)
        address[at++] = bits_of(values[next]);
#endif
    const u64 lds_nbytes = static_cast<u64>(now.what->lds_end - now.what->lds);
    if (lds_nbytes > LDS_NBYTES)
        stop(EXIT_KERNEL, now.what->name,
            "needs more than 512 KiB of LDS, as no GPU has; make its work-groups smaller");
    if (lds_nbytes)
        now.region[now.regions++] = { reinterpret_cast<u64>(now.what->lds),
                                      reinterpret_cast<u64>(now.what->lds_end), nullptr };
}

bool make_checks()
{
#if SIMGEN_SANITIZE
    if (!make_traces())
        return false;
#if SIMGEN_KEEPS
    for (const step_tensor &each : step_tensors)
        if (state_head.mark[each.step] == FINISHED || state_head.mark[each.step] == GIVEN)
            written_before(each.offset, each.nbytes - GUARD_NBYTES);
#endif
#endif
    return true;
}

void renew_checks()
{
#if SIMGEN_SANITIZE
    renumber_intervals();
#endif
}

#if SIMGEN_KEEPS
void open_steps(const char *path)
{
    if (open_state(path))
        load_state(path, arena);
}
bool to_run(u32 step) { return state_head.mark[step] == TO_RUN; }
void keep_step(const char *path, u32 step) { leave(path, arena, step); }
#else
void open_steps(const char *) {}
bool to_run(u32) { return true; }
void keep_step(const char *, u32) {}
#endif
#pragma clang optimize on
#pragma clang attribute pop
