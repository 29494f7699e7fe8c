/* Rounds of all launches on a GPU, each launch between two HIP events, and the list of the times.
 * A part of hip.c. */
#ifndef SIMGEN_HIP_TIMES_H
#define SIMGEN_HIP_TIMES_H

static hipEvent_t started[LAUNCHES], stopped[LAUNCHES];

static void run_round(void)
{
    for (u64 i = 0; i < LAUNCHES; i++) {
        check(hipEventRecord(started[i], 0), EXIT_QUEUE, "hipEventRecord", "check the GPU");
        run_launch(i);
        check(hipEventRecord(stopped[i], 0), EXIT_QUEUE, "hipEventRecord", "check the GPU");
    }
    check(hipDeviceSynchronize(), EXIT_KERNEL, "hipDeviceSynchronize", "a kernel failed");
}

struct text {
    char *at;
};

static void append(struct text *text, const char *words)
{
    while (*words)
        *text->at++ = *words++;
}

static void append_number(struct text *text, u64 value)
{
    char digits[21] = "";
    int at = sizeof digits - 1;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    append(text, digits + at);
}

/* Times of the launches in a round, in nanoseconds. */
static void take_times(u64 *times)
{
    for (u64 i = 0; i < LAUNCHES; i++) {
        float milliseconds = 0;
        check(hipEventElapsedTime(&milliseconds, started[i], stopped[i]), EXIT_QUEUE,
              "hipEventElapsedTime", "check the GPU");
        times[i] = (u64)(milliseconds * 1e6 + 0.5);
    }
}

static void append_seconds(struct text *text, u64 nanoseconds)
{
    append(text, ",");
    append_number(text, nanoseconds / 1000000000);
    append(text, ".");
    for (u64 digit = 100000000; digit; digit /= 10)
        append_number(text, nanoseconds / digit % 10);
}

/* Of the times of launch `index` in all rounds, in order: the middle one, the first and the
 * last. */
static void list_launch(struct text *list, u64 index, const u64 *times, u64 rounds, u64 *sorted)
{
    for (u64 round = 0; round < rounds; round++) {
        const u64 time = times[round * LAUNCHES + index];
        u64 at = round;
        for (; at && sorted[at - 1] > time; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = time;
    }
    append_number(list, index);
    append(list, ",");
    append(list, kernels[launches[index].kernel].name);
    append_seconds(list, (sorted[(rounds - 1) / 2] + sorted[rounds / 2]) / 2);
    append_seconds(list, sorted[0]);
    append_seconds(list, sorted[rounds - 1]);
    append(list, ",");
    append_number(list, rounds);
    append(list, "\n");
}

#define LINE_NBYTES 512 /* more than a line has: a kernel's name has 255 letters at most */

static void write_times(const u64 *times, u64 rounds)
{
    struct text list = { (char *)map_memory((LAUNCHES + 1) * LINE_NBYTES) };
    const char *first = list.at;
    u64 *sorted = (u64 *)map_memory(rounds * sizeof *sorted);
    append(&list, "launch,kernel,seconds,seconds_min,seconds_max,rounds\n");
    for (u64 i = 0; i < LAUNCHES; i++)
        list_launch(&list, i, times, rounds, sorted);
    write_output(&times_file, first, (u64)(list.at - first));
}

static u64 number(const char *words, const char *place)
{
    u64 value = 0;
    for (const char *at = words; *at; at++) {
        if (*at < '0' || *at > '9' || value > 99999)
            stop(EXIT_USAGE, place, "is not a count; write a whole number below 1000000");
        value = value * 10 + (u64)(*at - '0');
    }
    return value;
}

static void make_events(void)
{
    for (u64 i = 0; i < LAUNCHES; i++) {
        check(hipEventCreate(&started[i]), EXIT_QUEUE, "hipEventCreate", "check the GPU");
        check(hipEventCreate(&stopped[i]), EXIT_QUEUE, "hipEventCreate", "check the GPU");
    }
}

/* The first round gives the outputs. It is a timed one only where one round is all. */
static void run_all(u64 warmup, u64 repeats)
{
    u64 *times = (u64 *)map_memory(repeats * LAUNCHES * sizeof *times);
    make_events();
    run_round();
    take_times(times);
    write_outputs();
    for (u64 i = 0; i < warmup; i++)
        run_round();
    for (u64 i = 0; i < repeats && (repeats > 1 || warmup); i++) {
        run_round();
        take_times(times + i * LAUNCHES);
    }
    write_times(times, repeats);
}

#endif
