/* Runs launches: worker processes take work-groups from a shared counter.
 *
 * They are forked once, and sleep between launches. A launch wakes as many of them as it has
 * work-groups; the last one that is done with it wakes the parent. */
#ifndef SIMGEN_HOST_WORKERS_H
#define SIMGEN_HOST_WORKERS_H
#include "host_report.h"

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
        const u64 offset = address - reinterpret_cast<u64>(arena);
        for (u32 i = 0; i < plan.buffers; i++) { /* nobody writes inputs, and all may read them */
            const buffer &each = plan.buffer[i];
            if (each.input && each.alone && offset - each.offset < each.nbytes)
                line << "writes an input of the workload: ";
        }
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

/* Reserves stacks for `block` work-items; pages are taken when they are touched. */
inline bool make_stacks(u32 block)
{
    const u64 stride = STACK + PAGE;
    const long base = map(block * stride, PRIVATE | NO_RESERVE);
    if (base < 0)
        return false;
    for (u32 i = 0; i < block; i++) {
        const u64 guard = static_cast<u64>(base) + i * stride;
        if (sys(SYS_MPROTECT, static_cast<long>(guard), PAGE, 0, 0, 0, 0))
            return false;
        fibers[i].low = guard + PAGE;
        /* Different places in a page, or the hot ends of all stacks compete for one cache set. */
        fibers[i].high = guard + stride - i % 16 * 128;
    }
    return true;
}

/* What all launches need beside the arena. */
inline void make_workplace()
{
    const long at = map(sizeof *shared, SHARED);
    shared = reinterpret_cast<shared_state *>(at);
    if (at < 0 || !make_stacks(plan.most_items) || !make_checks())
        stop(EXIT_NO_MEMORY, "memory", "no room for the stacks of the work-items; free some");
    /* A file that grows too large is an error of write(), not the end of this process. */
    const signal_handler nothing = reinterpret_cast<signal_handler>(1); /* SIG_IGN */
    const signal_action ignore = { nothing, 0x04000000, restore_signal, 0 };
    sys(SYS_RT_SIGACTION, 25 /* SIGXFSZ */, reinterpret_cast<long>(&ignore), 0, 8, 0, 0);
}

/* Of this process: a write to an input and an access to the guard after a tensor are stopped by the
 * CPU, as far as its pages reach. Only workers do it; the parent reads guards. */
inline void protect()
{
    auto pages = [](u64 offset) { return (offset + PAGE - 1) / PAGE * PAGE; };
    for (u32 i = 0; i < plan.buffers; i++) {
        const buffer &b = plan.buffer[i];
        if (!b.alone)
            continue;
        const long start = reinterpret_cast<long>(arena + b.offset);
        const u64 nbytes = pages(b.nbytes);
        if (b.input)
            sys(SYS_MPROTECT, start, static_cast<long>(nbytes), 1 /* to read */, 0, 0, 0);
        const u64 guard = pages(plan.guard_nbytes + b.nbytes) - nbytes;
        const long end = start + static_cast<long>(nbytes);
        sys(SYS_MPROTECT, end, static_cast<long>(guard), 0, 0, 0, 0);
    }
}

/* ---- Processes ---- */

inline struct {
    u32 count;
    long process[MOST_PROCESSES];
    /* How many launches a worker was woken for: a line of the cache each, shared by all. */
    struct alignas(64) turn {
        u32 launches;
    } *turns;
} workers;

/* Runs work-groups of the current launch until none is left. */
inline void take_groups(u64 groups)
{
    /* Several work-groups at a time where there are many; small shares at the end keep all busy. */
    const u64 fair = groups / (workers.count * 16ul);
    const u64 share = fair < 1 ? 1 : fair > 64 ? 64 : fair;
    for (;;) {
        const u64 first = __atomic_fetch_add(&shared->next_group, share, __ATOMIC_RELAXED);
        if (first >= groups || __atomic_load_n(&shared->claimed, __ATOMIC_RELAXED))
            return;
        for (u64 group = first; group < groups && group < first + share; group++)
            run_group(group);
    }
}

/* The life of a worker. The parent ends it. */
[[noreturn]] inline void work(u32 number, long parent)
{
    sys(SYS_PRCTL, 1 /* PR_SET_PDEATHSIG */, 9 /* SIGKILL */, 0, 0, 0, 0);
    if (sys(SYS_GETPPID, 0, 0, 0, 0, 0, 0) != parent)
        quit(EXIT_KERNEL); /* it died before the line above */
    catch_signals();
    protect();
    u32 *const turn = &workers.turns[number].launches;
    for (u32 done = 0;; done++) {
        while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) == done)
            sleep_at(turn, done, 0);
        renew_checks();
        set_launch(shared->launch);
        take_groups(launch_at(shared->launch).groups);
        if (!__atomic_sub_fetch(&shared->working, 1, __ATOMIC_ACQ_REL))
            wake_at(&shared->working);
    }
}

/* Forks as many workers as are wanted, and as any launch has work-groups for. */
inline void start_workers(u32 wanted)
{
    u64 most = 0;
    for (u32 i = 0; i < plan.launches; i++) {
        const u64 groups = launch_at(i).groups;
        most = most < groups ? groups : most;
    }
    const u32 count = wanted < most ? wanted : static_cast<u32>(most);
    const long turns = map(count * sizeof *workers.turns, SHARED);
    if (turns < 0)
        stop(EXIT_NO_MEMORY, "memory", "no room for what processes share; free some");
    workers.turns = reinterpret_cast<decltype(workers.turns)>(turns);
    workers.count = count;
    const long parent = sys(SYS_GETPID, 0, 0, 0, 0, 0, 0);
    for (u32 i = 0; i < count; i++) {
        const long process = sys(SYS_FORK, 0, 0, 0, 0, 0, 0);
        if (process == 0)
            work(i, parent);
        if (process < 0) {
            workers.count = i; /* those that are there share the work-groups */
            break;
        }
        workers.process[i] = process;
    }
    if (!workers.count)
        stop(EXIT_NO_MEMORY, "processes", "none can be started; check the limits of this user");
}

/* Ends the workers and waits until all are gone. */
inline void dismiss_workers()
{
    for (u32 i = 0; i < workers.count; i++)
        sys(SYS_KILL, workers.process[i], 9, 0, 0, 0, 0);
    while (sys(SYS_WAIT4, -1, 0, 0, 0, 0, 0) > 0)
        ;
}

/* Ends the run: a worker gave up, or was killed by a signal. */
[[noreturn]] inline void blame_worker(u32 signal)
{
    dismiss_workers();
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

/* Waits until all workers are done with the launch. One that gives up says so; whether one was
 * killed from outside is looked up now and then. */
inline void wait_for_workers()
{
    for (;;) {
        const u32 working = __atomic_load_n(&shared->working, __ATOMIC_ACQUIRE);
        if (!working)
            return;
        if (working & FAILED)
            blame_worker(0);
        sleep_at(&shared->working, working, 200000000);
        int status = 0;
        const long at = reinterpret_cast<long>(&status);
        if (__atomic_load_n(&shared->working, __ATOMIC_ACQUIRE) == working
            && sys(SYS_WAIT4, -1, at, 1 /* WNOHANG */, 0, 0, 0) > 0)
            blame_worker(status & 0x7f);
    }
}

/* Nanoseconds of wall time, with what it takes to wake the workers. */
inline u64 run_launch(u32 index)
{
    set_launch(index);
    const u64 groups = launch_at(index).groups;
    const u32 count = groups < workers.count ? static_cast<u32>(groups) : workers.count;
    const u64 start = clock_nanoseconds();
    shared->next_group = 0;
    shared->launch = index;
    __atomic_store_n(&shared->working, count, __ATOMIC_RELEASE);
    for (u32 i = 0; i < count; i++) {
        __atomic_fetch_add(&workers.turns[i].launches, 1, __ATOMIC_RELEASE);
        wake_at(&workers.turns[i].launches);
    }
    wait_for_workers();
    return clock_nanoseconds() - start;
}

#endif
