/* What the two parts of the program know of each other: the kernels with all that depends on them
 * (host_kernels.cpp), compiled for each workload, and the launcher (host.cpp), which is the same
 * for all and is compiled once. */
#ifndef SIMGEN_HOST_PARTS_H
#define SIMGEN_HOST_PARTS_H
#include "system.h"

enum { PRIVATE = 0x2, SHARED = 0x1, NO_RESERVE = 0x4000 }; /* as mmap() has them */

/* New memory, zero, to read and write; negative if there is none. */
inline long map(u64 nbytes, int kind)
{
    return sys(SYS_MMAP, 0, static_cast<long>(nbytes), 3, kind | 0x20 /* anonymous */, -1, 0);
}

/* No GPU has more than half of it for a work-group (NVIDIA 227 KiB, AMD 160): emulated matrix
 * instructions exchange what lanes hold. */
enum : u64 { LDS_NBYTES = 512 * 1024 };

struct buffer { /* a tensor in the arena */
    const char *name;
    u64 offset, nbytes;
    bool input; /* no kernel may write it */
    bool alone; /* no other tensor lies in its place or guard at another time */
};

/* All that the launcher has to know of a workload (plan.h, calls.h). */
struct plan_facts {
    u64 arena_nbytes, outputs_offset, guard_nbytes;
    const u8 *data_id;
    const buffer *buffer; /* inputs in the order of the data file */
    u32 buffers, inputs, launches;
    u32 most_items; /* in a work-group */
    u32 canary;
    u32 keeps; /* does what steps leave go to a file? (state.h) */
};
extern const plan_facts plan;
inline u8 *arena;

struct kernel {
    const char *name, *source; /* entry point, file */
    void (*run)(const u64 *arg); /* calls the entry point for work-items until all are started */
    char *lds, *lds_end;
};

struct region { /* memory that the current kernel may use */
    u64 start, end;
    const buffer *tensor; /* null: LDS */
};

struct running {
    const kernel *what;
    u32 index; /* of the launch, from 0 */
    u32 block;
    u32 grid[3];
    u64 group; /* x runs fastest */
    u32 item;
    u32 regions;
    struct region *region;
};
inline running now; /* what this process is running */

/* ---- Fibers (host_fibers.h) ---- */
enum : u64 {
    PAGE = 4096,
    STACK = 64 * 1024, /* of a work-item */
    MAX_BLOCK = 1024,
};

struct fiber {
    u64 pointer; /* its stack pointer while it does not run; 0: not prepared yet */
    u64 low, high; /* its stack; the page below is a guard */
    u32 item;
    u32 line; /* of the barrier it waits at */
    bool waiting;
};
inline fiber fibers[MAX_BLOCK];
inline fiber *current;

/* ---- Messages (host_report.h) ---- */
constexpr u32 LINE_NBYTES = 1000;

struct report {
    u32 nbytes;
    char line[LINE_NBYTES];

    report();
    report &operator<<(const char *text);
    report &operator<<(u64 value);
    report &hex(u64 value);
    report &group(u64 number);
};
report blame_group(); /* begins a line with the kernel and the work-group */
report blame_item();
/* Hands the line to the parent, unless another worker was faster, and ends this process. */
[[noreturn]] void give_up(const report &line);
void place(report &line, u64 address); /* where it lies */

/* ---- What the launcher asks of the kernels' part ---- */
struct launch_facts {
    const char *kernel;
    u32 step; /* index of the layer and pass */
    u64 groups;
};
launch_facts launch_at(u32 index);
void set_launch(u32 index);
void run_group(u64 group); /* of the launch that is set */
bool make_checks(); /* false: there is no room for what checked accesses are compared with */
void renew_checks(); /* before a launch */

/* Where plan.keeps (state.h): */
void open_steps(const char *path); /* what finished steps left comes back */
bool to_run(u32 step);
void keep_step(const char *path, u32 step);

#endif
