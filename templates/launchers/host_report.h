/* What a kernel did wrong, as one line that names the kernel, the work-group and the work-item.
 *
 * Workers only write the line into memory that all processes share; the parent prints it when all
 * of them are gone, so that there is one line, and it is whole. */
#ifndef SIMGEN_HOST_REPORT_H
#define SIMGEN_HOST_REPORT_H
#include "host_parts.h"

enum { SYS_FUTEX = 202 };

/* Sleeps while a word that processes share has a value, until somebody wakes this process; 0 as
 * `nanoseconds`: for ever. Wakes up at times without a reason: look at the word again. */
inline void sleep_at(u32 *word, u32 value, u64 nanoseconds)
{
    const u64 time[2] = { 0, nanoseconds };
    sys(SYS_FUTEX, reinterpret_cast<long>(word), 0 /* FUTEX_WAIT */, value,
        nanoseconds ? reinterpret_cast<long>(time) : 0, 0, 0);
}

/* Wakes the process that sleeps at the word, if there is one. */
inline void wake_at(u32 *word)
{
    sys(SYS_FUTEX, reinterpret_cast<long>(word), 1 /* FUTEX_WAKE */, 1, 0, 0, 0);
}

enum : u32 { FAILED = 1u << 31 };

struct shared_state { /* by all processes, zero at first */
    u64 next_group; /* of the current launch */
    u32 launch;     /* the current one */
    u32 working;    /* workers that are not done with it yet; FAILED: one never will be */
    u32 claimed, ready; /* somebody has something to report; the line is written */
    u32 nbytes;
    char line[LINE_NBYTES];
};
inline shared_state *shared;

report::report() : nbytes(0) {}

report &report::operator<<(const char *text)
{
    while (*text && nbytes < sizeof line)
        line[nbytes++] = *text++;
    return *this;
}

report &report::operator<<(u64 value)
{
    char text[21];
    int at = sizeof text - 1;
    text[at] = 0;
    do {
        text[--at] = static_cast<char>('0' + value % 10);
        value /= 10;
    } while (value);
    return *this << text + at;
}

report &report::hex(u64 value)
{
    *this << "0x";
    int shift = 60;
    while (shift && !(value >> shift))
        shift -= 4;
    for (; shift >= 0; shift -= 4) {
        const char digit[2] = { "0123456789abcdef"[value >> shift & 15], 0 };
        *this << digit;
    }
    return *this;
}

report &report::group(u64 number)
{
    const u32 *grid = now.grid;
    if (grid[1] == 1 && grid[2] == 1)
        return *this << "work-group " << number;
    return *this << "work-group (" << number % grid[0] << ", " << number / grid[0] % grid[1]
                 << ", " << number / grid[0] / grid[1] << ")";
}

report blame_group()
{
    report line;
    line << "kernel " << now.what->name << ": ";
    line.group(now.group);
    return line;
}

report blame_item()
{
    report line = blame_group();
    line << ", work-item " << now.item << ": ";
    return line;
}

[[noreturn]] void give_up(const report &line)
{
    if (!__atomic_exchange_n(&shared->claimed, 1, __ATOMIC_ACQ_REL)) {
        for (u32 i = 0; i < line.nbytes; i++)
            shared->line[i] = line.line[i];
        shared->nbytes = line.nbytes;
        __atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
    }
    /* The parent kills all workers as soon as one has failed: not before the line is written. */
    while (!__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE))
        __builtin_ia32_pause();
    __atomic_fetch_or(&shared->working, FAILED, __ATOMIC_RELEASE);
    wake_at(&shared->working);
    quit(EXIT_KERNEL);
}

/* Where an address lies, seen from the nearest memory that the kernel may use. */
void place(report &line, u64 address)
{
    const region *nearest = nullptr;
    u64 least = plan.arena_nbytes;
    for (u32 i = 0; i < now.regions; i++) {
        const region &r = now.region[i];
        const u64 past = address < r.end ? 0 : address - r.end;
        const u64 away = address < r.start ? r.start - address : past;
        if (away < least) {
            nearest = &r;
            least = away;
        }
    }
    const u64 offset = address - reinterpret_cast<u64>(arena);
    for (u32 i = 0; i < plan.buffers; i++)
        if (least && offset - plan.buffer[i].offset < plan.buffer[i].nbytes) {
            line << offset - plan.buffer[i].offset << " bytes into buffer " << plan.buffer[i].name
                 << ", which is not an argument of the launch";
            return;
        }
    if (!nearest) {
        (line << "at ").hex(address);
        line << ", far from all buffers";
        return;
    }
    if (address < nearest->start)
        line << least << " bytes before the start of ";
    else if (address >= nearest->end)
        line << least << " bytes past the end of ";
    else
        line << address - nearest->start << " bytes into ";
    line << (nearest->tensor ? "buffer " : "LDS") << (nearest->tensor ? nearest->tensor->name : "");
}

#endif
