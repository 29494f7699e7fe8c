/* Runs the work-items of a work-group in one thread, with real barriers.
 *
 * A fiber is a stack. The first fiber calls the kernel for one work-item after another. When a
 * work-item comes to a barrier, its fiber waits and the next fiber goes on with the next work-item;
 * when all work-items wait, they are resumed in their order, up to the next barrier. So a kernel
 * without barriers runs as a plain loop, and each work-item that waits costs two switches.
 *
 * All work-items must come to the same barrier: on a GPU anything else is undefined, here it is
 * reported. */
#ifndef SIMGEN_HOST_FIBERS_H
#define SIMGEN_HOST_FIBERS_H
#include "host_parts.h"

inline u64 scheduler; /* stack pointer of run_group() while a fiber runs */
inline const u64 *arguments;

inline struct {
    u32 next, block; /* the next work-item to start; how many there are */
    u32 ended, last_ended;
} items;

/* Numbers the stretches of a work-group's life between barriers; never 0, never used twice. */
inline u32 interval, first_interval;

/* Saves the registers that a call preserves (System V AMD64 ABI, 3.2.1) on the stack and goes on
 * with the other stack, where the same was done. Kernels leave the MXCSR register alone. */
__attribute__((naked, noinline)) inline void switch_stack(u64 *, u64)
{
    __asm__ volatile("push %rbp\n\t"
                     "push %rbx\n\t"
                     "push %r12\n\t"
                     "push %r13\n\t"
                     "push %r14\n\t"
                     "push %r15\n\t"
                     "mov %rsp, (%rdi)\n\t"
                     "mov %rsi, %rsp\n\t"
                     "pop %r15\n\t"
                     "pop %r14\n\t"
                     "pop %r13\n\t"
                     "pop %r12\n\t"
                     "pop %rbx\n\t"
                     "pop %rbp\n\t"
                     "ret");
}

[[noreturn]] inline void fiber_main()
{
    for (;;) {
        now.what->run(arguments);
        switch_stack(&current->pointer, scheduler);
    }
}

/* The work-item that runs from now on. */
inline void set_item(u32 item)
{
    now.item = item;
#if SIMGEN_OWN
    threadIdx.x = item % simgen_block.x;
    threadIdx.y = item / simgen_block.x % simgen_block.y;
    threadIdx.z = item / simgen_block.x / simgen_block.y;
#else
    threadIdx.x = item;
#endif
}

/* Runs the fiber until it waits or has no work-item left. */
inline void resume(fiber &f)
{
    if (!f.pointer) {
        /* The return address, with six zero registers below it; a function expects the stack
         * pointer 8 bytes off a multiple of 16, as a call leaves it. */
        u64 *entry = reinterpret_cast<u64 *>(f.high - 16);
        *entry = reinterpret_cast<u64>(&fiber_main);
        f.pointer = reinterpret_cast<u64>(entry - 6);
    }
    current = &f;
    f.waiting = false;
    set_item(f.item);
    switch_stack(&scheduler, f.pointer);
}

/* kernel::run is: while (start_item()) { call the kernel; end_item(); } */
inline bool start_item()
{
    if (items.next == items.block)
        return false;
    set_item(current->item = items.next++);
    return true;
}

inline void end_item()
{
    items.ended++;
    items.last_ended = current->item;
}

extern "C" inline __attribute__((used, noinline)) void simgen_barrier(unsigned line)
{
    current->line = line;
    current->waiting = true;
    switch_stack(&current->pointer, scheduler);
}

/* Whether the work-items of the group, in `used` fibers, wait at a barrier. They must do so all of
 * them, at the same one, or none. */
inline bool at_barrier(u32 used)
{
    const fiber *first = nullptr;
    for (u32 i = 0; i < used; i++) {
        const fiber &f = fibers[i];
        if (!f.waiting || (first && f.line == first->line))
            continue;
        if (!first && !items.ended) {
            first = &f;
            continue;
        }
        report line = blame_group();
        if (items.ended)
            line << ": work-item " << items.last_ended << " ended while work-item " << f.item
                 << " waits at the barrier in line " << f.line;
        else
            line << ": work-item " << first->item << " waits at the barrier in line " << first->line
                 << ", work-item " << f.item << " at the one in line " << f.line;
        give_up(line);
    }
    return first;
}

void run_group(u64 group)
{
    now.group = group;
    blockIdx.x = static_cast<u32>(group % now.grid[0]);
    blockIdx.y = static_cast<u32>(group / now.grid[0] % now.grid[1]);
    blockIdx.z = static_cast<u32>(group / now.grid[0] / now.grid[1]);
    /* Real LDS holds anything at the start of a work-group; here it is NaN. */
    for (char *at = now.what->lds; at + 4 <= now.what->lds_end; at += 4)
        *reinterpret_cast<u32 *>(at) = CANARY;
    items = { 0, now.block, 0, 0 };
    first_interval = ++interval;
    u32 used = 0;
    while (items.next < items.block)
        resume(fibers[used++]);
    while (at_barrier(used)) {
        interval++;
        for (u32 i = 0; i < used; i++)
            resume(fibers[i]);
    }
}

#endif
