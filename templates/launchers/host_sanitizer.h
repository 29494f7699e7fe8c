/* Checks every access of the kernels: the compiler calls these functions before each one
 * (-fsanitize=kernel-address with outlined checks), and there is no run-time library but this.
 *
 *   bounds   an access lies in an argument of the launch, in the kernel's LDS or in the work-item's
 *            stack; inputs of the workload are only read
 *   races    no two work-items use a word of LDS or 16 bits of a buffer, one of them writing,
 *            without a barrier between them
 *   order    nothing is read before it is written: LDS since the work-group began, buffers since
 *            the run began; inputs hold their values from the start
 *
 * A race is seen in whatever order the work-items run, in LDS always; in global memory when the
 * writer comes first. Accesses of different work-groups are never ordered by a barrier. */
#ifndef SIMGEN_HOST_SANITIZER_H
#define SIMGEN_HOST_SANITIZER_H
#include "host_fibers.h"
#include "host_lines.h"

struct lds_word { /* a work-item is only meant where its interval is the current one */
    u32 write_interval, read_interval;
    u16 writer, reader, other_reader; /* two different readers, if there are two */
};
inline lds_word lds_words[LDS_NBYTES / 4];

/* Intervals begin anew, before a process that lives long comes to the largest number. */
inline void renumber_intervals()
{
    if (interval < 1u << 31)
        return;
    memset(lds_words, 0, sizeof lds_words);
    interval = 0;
}

/* Who wrote 16 bits of the arena last; shared by all processes. Zero: nobody. */
union trace {
    u64 bits;
    struct {
        u32 item;     /* of all of the launch, modulo 2^32 */
        u16 interval; /* in its work-group, modulo 2^16 */
        u16 launch;   /* from 1 */
    };
};
constexpr u64 TRACED = 2; /* bytes: GPUs whose memory takes them store halves by themselves */
inline trace *traces;     /* one for each of these in the arena */

inline bool make_traces()
{
    const long at = map(ARENA_NBYTES / TRACED * sizeof(trace), SHARED | NO_RESERVE);
    traces = reinterpret_cast<trace *>(at);
    return at > 0;
}

/* A tensor in the arena was written before this program began. */
inline void written_before(u64 offset, u64 nbytes)
{
    for (u64 at = offset; at < offset + nbytes; at += TRACED)
        traces[at / TRACED].launch = 0xffff;
}

struct access {
    u64 address, nbytes;
    bool write;
    u64 code; /* return address of the check */
};

[[noreturn]] inline void blame_line(report &line, u64 code)
{
    const u32 number = line_of_code(code);
    if (number)
        line << ", in line " << number;
    give_up(line);
}

inline report &operator<<(report &line, const access &a)
{
    return line << a.nbytes << (a.write ? "-byte store " : "-byte load ");
}

[[noreturn]] inline void outside(const access &a)
{
    report line = blame_item();
    line << a;
    place(line, a.address);
    blame_line(line, a.code);
}

[[noreturn]] inline void race(const access &a, u64 address, const char *verb, u64 group, u64 item)
{
    report line = blame_item();
    line << "data race: " << a;
    place(line, address);
    line << ", which work-item " << item;
    if (group != now.group)
        (line << " of ").group(group);
    line << " " << verb << (group == now.group ? " since the last barrier" : " in the same launch");
    blame_line(line, a.code);
}

[[noreturn]] inline void unwritten(const access &a, u64 address, const char *what)
{
    report line = blame_item();
    line << "reads " << what << " before it is written: " << a;
    place(line, address);
    blame_line(line, a.code);
}

inline void check_lds(const access &a, u64 address)
{
    lds_word &word = lds_words[(address - reinterpret_cast<u64>(now.what->lds)) / 4];
    const u16 item = static_cast<u16>(now.item);
    if (word.write_interval == interval && word.writer != item)
        race(a, address, "wrote", now.group, word.writer);
    if (a.write) {
        if (word.read_interval == interval && (word.reader != item || word.other_reader != item))
            race(a, address, "read", now.group,
                 word.reader != item ? word.reader : word.other_reader);
        word.write_interval = interval;
        word.writer = item;
        return;
    }
    if (word.write_interval < first_interval)
        unwritten(a, address, "LDS");
    if (word.read_interval != interval) {
        word.read_interval = interval;
        word.reader = word.other_reader = item;
    } else if (word.reader != item) {
        word.other_reader = item;
    }
}

inline void check_arena(const access &a, u64 address)
{
    trace &last = traces[(address - reinterpret_cast<u64>(arena)) / TRACED];
    trace mine, old;
    mine.item = static_cast<u32>(now.group * now.block + now.item);
    mine.interval = static_cast<u16>(interval - first_interval);
    mine.launch = static_cast<u16>(now.index + 1);
    if (a.write)
        old.bits = __atomic_exchange_n(&last.bits, mine.bits, __ATOMIC_RELAXED);
    else
        old.bits = __atomic_load_n(&last.bits, __ATOMIC_RELAXED);
    if (!old.bits && !a.write)
        unwritten(a, address, "global memory");
    if (!old.bits || old.launch != mine.launch || old.item == mine.item)
        return;
    const u64 group = old.item / now.block;
    if (group != now.group || old.interval == mine.interval)
        race(a, address, "wrote", group, old.item % now.block);
}

extern "C" char __executable_start[], etext[]; /* from the linker */

/* Comparisons are macros: a program that is not optimised spends most of its time here. */
#define WITHIN(nbytes, start, end)                                                                 \
    (address - (start) < (end) - (start) && (nbytes) <= (end) - address)
#define WITHIN_OBJECT(object)                                                                      \
    (address - reinterpret_cast<u64>(&(object)) < sizeof(object) &&                                \
     nbytes <= reinterpret_cast<u64>(&(object)) + sizeof(object) - address)

inline u32 recent; /* the region of the access before, which is tried first */

inline void check(const access &a)
{
    const u64 address = a.address, nbytes = a.nbytes;
    if (WITHIN(nbytes, current->low, current->high))
        return;
    if (recent >= now.regions)
        recent = 0;
    for (u32 left = now.regions; left; left--, recent = recent + 1 < now.regions ? recent + 1 : 0) {
        const region *const r = &now.region[recent];
        if (!WITHIN(nbytes, r->start, r->end))
            continue;
        if (r->tensor && r->tensor->input) {
            if (!a.write)
                return; /* nobody writes it */
            report line = blame_item();
            line << "writes an input of the workload: " << a;
            place(line, address);
            blame_line(line, a.code);
        }
        const u64 grain = r->tensor ? TRACED : 4;
        for (u64 at = address & -grain; at < address + nbytes; at += grain) {
            if (r->tensor)
                check_arena(a, at);
            else
                check_lds(a, at);
        }
        return;
    }
    if (!a.write && (WITHIN_OBJECT(threadIdx) || WITHIN_OBJECT(blockIdx)))
        return;
#if SIMGEN_OWN
    if (!a.write && (WITHIN_OBJECT(simgen_block) || WITHIN_OBJECT(simgen_grid)))
        return;
#endif
    /* The compiler may keep constants next to the code. */
    const u64 image = reinterpret_cast<u64>(__executable_start);
    if (!a.write && WITHIN(nbytes, image, reinterpret_cast<u64>(etext)))
        return;
    outside(a);
}
#undef WITHIN_OBJECT

#define RETURN_ADDRESS reinterpret_cast<u64>(__builtin_return_address(0))
#define CHECKS(nbytes)                                                                             \
    extern "C" __attribute__((used)) void __asan_load##nbytes##_noabort(u64 address)               \
    {                                                                                              \
        if (!WITHIN(nbytes, current->low, current->high))                                          \
            check({ address, nbytes, false, RETURN_ADDRESS });                                     \
    }                                                                                              \
    extern "C" __attribute__((used)) void __asan_store##nbytes##_noabort(u64 address)              \
    {                                                                                              \
        if (!WITHIN(nbytes, current->low, current->high))                                          \
            check({ address, nbytes, true, RETURN_ADDRESS });                                      \
    }
CHECKS(1)
CHECKS(2)
CHECKS(4)
CHECKS(8)
CHECKS(16)
#undef CHECKS
#undef WITHIN

extern "C" {
__attribute__((used)) void __asan_loadN_noabort(u64 address, u64 nbytes)
{
    check({ address, nbytes, false, RETURN_ADDRESS });
}
__attribute__((used)) void __asan_storeN_noabort(u64 address, u64 nbytes)
{
    check({ address, nbytes, true, RETURN_ADDRESS });
}
__attribute__((used)) void *__asan_memset(void *to, int value, u64 nbytes)
{
    check({ reinterpret_cast<u64>(to), nbytes, true, RETURN_ADDRESS });
    return memset(to, value, nbytes);
}
__attribute__((used)) void *__asan_memcpy(void *to, const void *from, u64 nbytes)
{
    check({ reinterpret_cast<u64>(from), nbytes, false, RETURN_ADDRESS });
    check({ reinterpret_cast<u64>(to), nbytes, true, RETURN_ADDRESS });
    return memcpy(to, from, nbytes);
}
__attribute__((used)) void __asan_handle_no_return() {}
}

/* What -fsanitize=array-bounds and the like hand over begins with the place in the source. */
struct source_place {
    const char *file;
    u32 line, column;
};
struct type_name {
    u16 kind, info;
    char text[]; /* in quotes */
};
struct bounds_data {
    source_place where;
    const type_name *array, *index;
};

[[noreturn]] inline void blame_source(report &line, const source_place &where)
{
    line << ", in line " << where.line;
    give_up(line);
}

[[noreturn]] inline void overflow(const source_place *where)
{
    report line = blame_item();
    line << "a signed number overflows";
    blame_source(line, *where);
}

extern "C" {
__attribute__((used)) void __ubsan_handle_out_of_bounds(const bounds_data *data, u64 index)
{
    /* info: bit 0 tells a signed type, the others log2 of its bits; the value is zero-extended. */
    const u32 unused = 64 - (1u << (data->index->info >> 1));
    const long value = static_cast<long>(index << unused) >> unused;
    const bool negative = (data->index->info & 1) && value < 0;
    report line = blame_item();
    line << "index " << (negative ? "-" : "") << (negative ? -static_cast<u64>(value) : index)
         << " is outside of the array of type " << data->array->text;
    blame_source(line, data->where);
}
__attribute__((used)) void __ubsan_handle_divrem_overflow(const source_place *where, u64, u64)
{
    report line = blame_item();
    line << "integer division by zero, or a quotient that overflows";
    blame_source(line, *where);
}
__attribute__((used)) void __ubsan_handle_add_overflow(const source_place *at, u64, u64)
{
    overflow(at);
}
__attribute__((used)) void __ubsan_handle_sub_overflow(const source_place *at, u64, u64)
{
    overflow(at);
}
__attribute__((used)) void __ubsan_handle_mul_overflow(const source_place *at, u64, u64)
{
    overflow(at);
}
__attribute__((used)) void __ubsan_handle_negate_overflow(const source_place *at, u64)
{
    overflow(at);
}
}

#endif
