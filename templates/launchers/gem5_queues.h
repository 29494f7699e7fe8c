/* Several queues: steps that do not depend on each other run at once
 * (simgen/workload/queues.py). A part of the program, which defines `turns` and `before`.
 *
 * A queue begins its next launch when the one before it has ended, and the steps that it waits
 * for. When launches began and ended, in gem5's time, goes to `times.bin`: gem5 dumps its
 * statistics only when no compute unit runs any more, so of launches that overlap they do not
 * tell. */
#define TIMES "times.bin"

struct kfd_clocks {
    u64 gpu, cpu, system; /* nanoseconds, all the same in gem5 */
    u64 per_second;
    u32 gpu_id, pad;
};
_Static_assert(sizeof(struct kfd_clocks) == 40, "as in kfd_ioctl.h");
#define KFD_GET_CLOCK_COUNTERS KFD_IOWR(0x05, struct kfd_clocks)

/* A completion raises the event before its signal's value is there, by the time of one DMA
 * write. */
#define POLLS 1000

static u64 times[LAUNCHES][2]; /* nanoseconds: when its doorbell rang, when its end was seen */
static u32 left[STEPS];        /* launches that have not ended */
static u64 next[QUEUES];       /* the launch that a queue runs, or will; LAUNCHES: none is left */
static u8 busy[QUEUES];

static u64 now(void)
{
    static struct kfd_clocks clocks = { .gpu_id = GPU_ID };
    driver(KFD_GET_CLOCK_COUNTERS, &clocks, "does not tell the time" KNOWN);
    return clocks.system;
}

/* The first launch of a queue from this one on. */
static u64 next_of(u32 queue, u64 index)
{
    while (index < LAUNCHES && turns[launches[index].step].queue != queue)
        index++;
    return index;
}

static int may_begin(u32 step)
{
    for (u32 i = 0; i < turns[step].count; i++)
        if (left[before[turns[step].first + i]])
            return 0;
    return 1;
}

static void begin_all(void)
{
    for (u32 i = 0; i < QUEUES; i++) {
        if (busy[i] || next[i] == LAUNCHES || !may_begin(launches[next[i]].step))
            continue;
        times[next[i]][0] = now();
        begin_launch(&lines[i], next[i]);
        busy[i] = 1;
    }
}

/* How many launches have ended since it was called before. */
static u64 take_ended(void)
{
    u64 ended = 0;
    for (u32 i = 0; i < QUEUES; i++) {
        if (!busy[i] || lines[i].done.value > 0)
            continue;
        times[next[i]][1] = now();
        left[launches[next[i]].step]--;
        busy[i] = 0;
        next[i] = next_of(i, next[i] + 1);
        ended++;
    }
    return ended;
}

/* Sleeps until launches end, or for so long. An event that came while nobody waited for it ends the
 * next wait at once, so its end proves nothing. */
static u64 wait_for_some(u32 timeout_ms)
{
    u64 ended = take_ended();
    if (ended)
        return ended;
    wait.timeout_ms = timeout_ms;
    driver(KFD_WAIT_EVENTS, &wait, "does not wait for the event" KNOWN);
    for (u32 polls = 0; !ended && polls < POLLS; polls++)
        ended = take_ended();
    return ended;
}

static void write_times(void)
{
    const long file = sys(SYS_OPEN, (long)TIMES, 01 | 0100 | 01000 /* O_WRONLY O_CREAT O_TRUNC */,
                          0644, 0, 0, 0);
    if (file < 0 || !write_all(file, times, sizeof times))
        stop(
            EXIT_NO_OUTPUT, TIMES, "cannot be written; check the folder and the space on the disk");
}

static void run_queues(void)
{
    for (u64 i = 0; i < LAUNCHES; i++)
        left[launches[i].step]++;
    for (u32 i = 0; i < QUEUES; i++)
        next[i] = next_of(i, 0);
    begin_all();
    u32 timeout_ms = 1;
    for (u64 todo = LAUNCHES; todo;) {
        const u64 ended = wait_for_some(timeout_ms);
        todo -= ended;
        timeout_ms = ended ? 1 : 2 * timeout_ms;
        for (u32 i = 0; timeout_ms > TIMEOUT_MS && i < QUEUES; i++)
            if (busy[i])
                time_out(next[i]);
        begin_all();
    }
    write_times();
}
