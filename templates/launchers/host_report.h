/* What a kernel did wrong, as one line that names the kernel, the work-group and the work-item.
 *
 * Workers only write the line into memory that all processes share; the parent prints it when all
 * of them are gone, so that there is one line, and it is whole. */
#ifndef SIMGEN_HOST_REPORT_H
#define SIMGEN_HOST_REPORT_H
#include "plan.h"

enum { SYS_FUTEX = 202 };

enum { PRIVATE = 0x2, SHARED = 0x1, NO_RESERVE = 0x4000 }; /* as mmap() has them */

/* New memory, zero, to read and write; negative if there is none. */
inline long map(u64 nbytes, int kind)
{
    return sys(SYS_MMAP, 0, static_cast<long>(nbytes), 3, kind | 0x20 /* anonymous */, -1, 0);
}

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

/* No GPU has more than half of it for a work-group (NVIDIA 227 KiB, AMD 160): emulated matrix
 * instructions exchange what lanes hold. */
enum : u64 { LDS_NBYTES = 512 * 1024 };

struct buffer { /* a tensor in the arena */
    const char *name;
    u64 offset, nbytes;
    bool input; /* no kernel may write it */
    bool alone; /* no other tensor lies in its place or guard at another time */
};
extern const buffer buffers[BUFFERS];
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

enum : u32 { FAILED = 1u << 31 };

struct shared_state { /* by all processes, zero at first */
    u64 next_group; /* of the current launch */
    u32 launch;     /* the current one */
    u32 working;    /* workers that are not done with it yet; FAILED: one never will be */
    u32 claimed, ready; /* somebody has something to report; the line is written */
    u32 nbytes;
    char line[1000];
};
inline shared_state *shared;

inline struct {
    const kernel *what;
    u32 index; /* of the launch, from 0 */
    u32 block;
    u32 grid[3];
    u64 group; /* x runs fastest */
    u32 item;
    u32 regions;
    region region[MAX_ARGS + 1];
} now; /* what this process is running */

/* Reports and system calls gain nothing from an optimiser, which took longer for them than for a
 * kernel. */
#pragma clang optimize off
struct report {
    u32 nbytes;
    char line[sizeof shared_state::line];

    /* Written out, because the sanitizer's pragma does not reach implicit functions. */
    report() : nbytes(0) {}
    report &operator<<(const char *text)
    {
        while (*text && nbytes < sizeof line)
            line[nbytes++] = *text++;
        return *this;
    }
    report &operator<<(u64 value)
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
    report &hex(u64 value)
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
    report &group(u64 number)
    {
        const u32 *grid = now.grid;
        if (grid[1] == 1 && grid[2] == 1)
            return *this << "work-group " << number;
        return *this << "work-group (" << number % grid[0] << ", " << number / grid[0] % grid[1]
                     << ", " << number / grid[0] / grid[1] << ")";
    }
};

/* Begins a line with the kernel and the work-group. */
inline report blame_group()
{
    report line;
    line << "kernel " << now.what->name << ": ";
    line.group(now.group);
    return line;
}

inline report blame_item()
{
    report line = blame_group();
    line << ", work-item " << now.item << ": ";
    return line;
}

/* Hands the line to the parent, unless another worker was faster, and ends this process. */
[[noreturn]] inline void give_up(const report &line)
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
inline void place(report &line, u64 address)
{
    const region *nearest = nullptr;
    u64 least = ARENA_NBYTES;
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
    for (u32 i = 0; i < BUFFERS; i++)
        if (least && offset - buffers[i].offset < buffers[i].nbytes) {
            line << offset - buffers[i].offset << " bytes into buffer " << buffers[i].name
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
#pragma clang optimize on

#endif
