/* Runs a launch: worker processes take work-groups from a shared counter. */
#ifndef SIMGEN_HOST_WORKERS_H
#define SIMGEN_HOST_WORKERS_H
#include "host_fibers.h"

enum { MOST_PROCESSES = 1024 };

enum {
    SYS_RT_SIGACTION = 13, SYS_GETPID = 39, SYS_UNLINK = 87, SYS_GETPPID = 110,
    SYS_SIGALTSTACK = 131, SYS_PRCTL = 157, SYS_SCHED_GETAFFINITY = 204,
};

inline u64 clock_nanoseconds()
{
    u64 time[2];
    sys(SYS_CLOCK_GETTIME, 1 /* monotonic */, reinterpret_cast<long>(time), 0, 0, 0, 0);
    return time[0] * 1000000000 + time[1];
}

/* ---- A kernel that crashes ends its worker, with one line that says where. ---- */

using signal_handler = void (*)(int, const int *, const u64 *);
struct signal_action {
    signal_handler handler;
    u64 flags;
    void (*restorer)();
    u64 mask;
};
__attribute__((naked)) inline void restore_signal()
{
    __asm__ volatile("mov $15, %eax\n\t" /* rt_sigreturn */
                     "syscall");
}

/* `info` is a siginfo_t: the signal, and the address at byte 16. */
inline void on_signal(int number, const int *info, const u64 *)
{
    const u64 address = *reinterpret_cast<const u64 *>(info + 4);
    report line = blame_item();
    if (number == 8 /* SIGFPE */) {
        line << "integer division by zero";
    } else if (number == 4 /* SIGILL */) {
        line << "invalid instruction";
    } else if (current && address < current->low && current->low - address <= PAGE) {
        line << "its stack overflows";
    } else {
        (line << "invalid access at ").hex(address) << ", ";
        place(line, address);
    }
    give_up(line);
}

inline void catch_signals()
{
    static u8 stack[16 * 1024]; /* another one: a fiber's may be what overflowed */
    struct {
        void *start;
        u64 flags, nbytes;
    } alternate = { stack, 0, sizeof stack };
    sys(SYS_SIGALTSTACK, reinterpret_cast<long>(&alternate), 0, 0, 0, 0, 0);
    /* SA_SIGINFO, SA_ONSTACK, SA_RESTORER */
    const signal_action action = { on_signal, 0x4 | 0x08000000 | 0x04000000, restore_signal, 0 };
    const int numbers[] = { 4 /* SIGILL */, 7 /* SIGBUS */, 8 /* SIGFPE */, 11 /* SIGSEGV */ };
    for (const int number : numbers)
        sys(SYS_RT_SIGACTION, number, reinterpret_cast<long>(&action), 0, 8, 0, 0);
}

/* ---- Memory ---- */

/* What all launches need beside the arena. */
inline void make_workplace()
{
    const long at = map(sizeof *shared, SHARED);
    shared = reinterpret_cast<shared_state *>(at);
    bool ok = at > 0 && make_stacks(MOST_ITEMS);
#ifdef SIMGEN_HOST_SANITIZER_H
    ok = ok && make_traces();
#endif
    if (!ok)
        stop(EXIT_NO_MEMORY, "memory", "no room for the stacks of the work-items");
    /* A file that grows too large is an error of write(), not the end of this process. */
    const signal_handler nothing = reinterpret_cast<signal_handler>(1); /* SIG_IGN */
    const signal_action ignore = { nothing, 0x04000000, restore_signal, 0 };
    sys(SYS_RT_SIGACTION, 25 /* SIGXFSZ */, reinterpret_cast<long>(&ignore), 0, 8, 0, 0);
}

/* While kernels run, a write to an input and an access to the guard after a tensor are stopped by
 * the CPU, as far as its pages reach. */
inline void protect(bool on)
{
    auto pages = [](u64 offset) { return (offset + PAGE - 1) / PAGE * PAGE; };
    auto overlap = [pages](const buffer &a, const buffer &b) {
        return a.offset < b.offset + pages(b.nbytes) &&
               b.offset < a.offset + pages(GUARD_NBYTES + a.nbytes);
    };
    for (const buffer &b : buffers) {
        bool alone = true; /* memory may be reused: a later tensor where this one's guard is */
        for (const buffer &other : buffers)
            alone = alone && (&other == &b || !overlap(b, other));
        if (!alone)
            continue;
        const long start = reinterpret_cast<long>(arena + b.offset);
        const u64 nbytes = pages(b.nbytes);
        if (b.input)
            sys(SYS_MPROTECT, start, static_cast<long>(nbytes), on ? 1 : 3, 0, 0, 0);
        const u64 guard = pages(GUARD_NBYTES + b.nbytes) - nbytes;
        const long end = start + static_cast<long>(nbytes);
        sys(SYS_MPROTECT, end, static_cast<long>(guard), on ? 0 : 3, 0, 0, 0);
    }
}

/* ---- Processes ---- */

[[noreturn]] inline void work(u64 groups, u64 share, long parent)
{
    sys(SYS_PRCTL, 1 /* PR_SET_PDEATHSIG */, 9 /* SIGKILL */, 0, 0, 0, 0);
    if (sys(SYS_GETPPID, 0, 0, 0, 0, 0, 0) != parent)
        quit(EXIT_KERNEL); /* it died before the line above */
    catch_signals();
    for (;;) {
        const u64 first = __atomic_fetch_add(&shared->next_group, share, __ATOMIC_RELAXED);
        if (first >= groups || __atomic_load_n(&shared->claimed, __ATOMIC_RELAXED))
            quit(EXIT_DONE);
        for (u64 group = first; group < groups && group < first + share; group++) {
            now.group = group;
            blockIdx.x = static_cast<u32>(group % now.grid[0]);
            blockIdx.y = static_cast<u32>(group / now.grid[0] % now.grid[1]);
            blockIdx.z = static_cast<u32>(group / now.grid[0] / now.grid[1]);
            run_group();
        }
    }
}

/* Waits for all workers; kills those that are left once one has failed. */
inline void wait_for(long *workers, u32 count)
{
    u32 signal = 0;
    bool failed = false;
    for (u32 left = count; left; left--) {
        int status = 0;
        const long gone = sys(SYS_WAIT4, -1, reinterpret_cast<long>(&status), 0, 0, 0, 0);
        for (u32 i = 0; i < count; i++)
            if (workers[i] == gone)
                workers[i] = 0; /* another process may get its number */
        if (!status || failed)
            continue;
        failed = true;
        signal = status & 0x7f;
        for (u32 i = 0; i < count; i++)
            if (workers[i])
                sys(SYS_KILL, workers[i], 9, 0, 0, 0, 0);
    }
    if (!failed)
        return;
    report line;
    line << "simgen: error: ";
    if (shared->ready) {
        for (u32 i = 0; i < shared->nbytes && line.nbytes < sizeof line.line; i++)
            line.line[line.nbytes++] = shared->line[i];
    } else {
        line << "kernel " << now.what->name << ": a worker was killed by signal " << signal;
    }
    if (line.nbytes == sizeof line.line)
        line.nbytes--;
    line << "\n";
    write_all(2, line.line, line.nbytes);
    quit(EXIT_KERNEL);
}

inline void set_launch(u32 index)
{
    const launch &l = launches[index];
    now.what = &kernels[l.kernel];
    now.index = index;
    now.block = l.block;
    now.group = now.regions = 0;
    static u64 address[MAX_ARGS];
    arguments = address;
    for (u32 i = 0; i < 3; i++)
        now.grid[i] = l.grid[i];
    for (u32 i = 0; i < l.args; i++) {
        address[i] = reinterpret_cast<u64>(arena + l.arg[i]);
        const buffer &b = buffers[tensors[index][i]];
        now.region[now.regions++] = { address[i], address[i] + b.nbytes, &b };
    }
    const u64 lds_nbytes = static_cast<u64>(now.what->lds_end - now.what->lds);
    if (lds_nbytes > LDS_NBYTES)
        stop(EXIT_KERNEL, now.what->name, "has more than 64 KiB of LDS; no GPU would run it");
    if (lds_nbytes)
        now.region[now.regions++] = { reinterpret_cast<u64>(now.what->lds),
                                      reinterpret_cast<u64>(now.what->lds_end), nullptr };
}

/* Nanoseconds of wall time, with what it takes to start the workers. */
inline u64 run_launch(u32 index, u32 processes)
{
    static long workers[MOST_PROCESSES];
    set_launch(index);
    const u64 groups = static_cast<u64>(now.grid[0]) * now.grid[1] * now.grid[2];
    /* Several work-groups at a time where there are many; small shares at the end keep all busy. */
    const u64 fair = groups / (processes * 16ul);
    const u64 share = fair < 1 ? 1 : fair > 64 ? 64 : fair;
    const long parent = sys(SYS_GETPID, 0, 0, 0, 0, 0, 0);
    const u64 start = clock_nanoseconds();
    shared->next_group = 0;
    u32 count = 0;
    while (count < processes && count < groups) {
        const long worker = sys(SYS_FORK, 0, 0, 0, 0, 0, 0);
        if (worker == 0)
            work(groups, share, parent);
        if (worker < 0)
            break;
        workers[count++] = worker;
    }
    if (!count)
        stop(EXIT_NO_MEMORY, "processes", "none can be started; check the limits of this user");
    wait_for(workers, count);
    return clock_nanoseconds() - start;
}

#endif
