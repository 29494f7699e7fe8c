/* Runs the kernels of a workload (plan.h, kernels.h) on this CPU.
 *
 *     program DATA OUTPUTS LAUNCHES_CSV [PROCESSES] [STATE]
 *
 * DATA is data.h5; OUTPUTS becomes the arena from OUTPUTS_OFFSET to its end; LAUNCHES_CSV the
 * wall time of each launch that ran. PROCESSES is how many run work-groups at the same time;
 * without it, or where it is empty, that is one for each CPU that this process may use.
 * SIMGEN_KEEPS: what each step leaves goes to STATE at once; the steps that are marked there are
 * not run again.
 *
 * Launches are run by worker processes, which take work-groups from a shared counter. Processes,
 * not threads: LDS is static memory, private to each of them, and a worker that crashes is seen
 * by its parent. All of them share the arena. */
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
#include "host_workers.h"

/* AVX2 and FMA, and an operating system that saves their registers. */
static bool has_vectors()
{
    u32 a, b, c, d;
    __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(0), "c"(0));
    if (a < 7)
        return false;
    __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(1), "c"(0));
    const u32 wanted =
        1u << 12 /* FMA */ | 1u << 27 /* OSXSAVE */ | 1u << 28 /* AVX */ | 1u << 29 /* F16C */;
    if ((c & wanted) != wanted)
        return false;
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    if ((a & 6) != 6)
        return false;
    __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
    return b >> 5 & 1; /* AVX2 */
}

static void make_arena()
{
    const long at = map(ARENA_NBYTES, SHARED);
    if (at < 0)
        stop(EXIT_NO_MEMORY, "memory", "no room for the tensors; choose a smaller batch");
    arena = reinterpret_cast<u8 *>(at);
    u32 *words = reinterpret_cast<u32 *>(at);
    for (u64 i = 0; i < ARENA_NBYTES / 4; i++)
        words[i] = CANARY;
}

#pragma clang optimize off /* host_report.h */
static void read_inputs(const char *path)
{
    alignas(8) static u8 raw[sizeof(data_header) + (INPUTS + 1) * sizeof(data_entry)];
    const data_header &header = *reinterpret_cast<const data_header *>(raw);
    const long fd = sys(SYS_OPEN, reinterpret_cast<long>(path), 0 /* to read */, 0, 0, 0, 0);
    if (fd < 0)
        stop(EXIT_NO_DATA, path, "cannot be opened; build the bundle again");
    if (!read_all(fd, raw, sizeof raw, 0))
        stop(EXIT_DATA_SIZE, path, "is shorter than its header; build the bundle again");
    for (u32 i = 0; i < 8; i++)
        if (header.magic[i] != "simgenD1"[i])
            stop(EXIT_DATA_SIZE, path, "is not a data file of simgen; build the bundle again");
    const long nbytes = sys(SYS_LSEEK, fd, 0, 2 /* from the end */, 0, 0, 0);
    if (nbytes < 0 || static_cast<u64>(nbytes) != header.file_nbytes)
        stop(EXIT_DATA_SIZE, path, "is truncated or too long; build the bundle again");
    for (u32 i = 0; i < 32; i++)
        if (header.id[i] != data_id[i])
            stop(EXIT_DATA_ID, path, "holds other tensors or another seed; build the bundle again");
    if (header.count != INPUTS + 1)
        stop(EXIT_DATA_SIZE, path, "has another number of tensors; build the bundle again");
    for (u32 i = 0; i < INPUTS; i++) {
        if (header.entry[i].nbytes != inputs[i].nbytes)
            stop(EXIT_DATA_SIZE, path, "has a tensor of another size; build the bundle again");
        if (!read_all(fd, arena + inputs[i].offset, inputs[i].nbytes, header.entry[i].offset))
            stop(EXIT_NO_DATA, path, "cannot be read; check the disk");
    }
    sys(SYS_CLOSE, fd, 0, 0, 0, 0, 0);
}

/* Writes a file under a temporary name beside it, then renames it. */
static void write_file(const char *path, const void *content, u64 nbytes)
{
    char part[4096];
    u64 length = 0, base = 0;
    for (; path[length]; length++)
        if (path[length] == '/')
            base = length + 1;
    if (length + 7 > sizeof part)
        stop(EXIT_NO_OUTPUT, path, "the path is too long; name a shorter one");
    for (u64 i = 0; i < base; i++)
        part[i] = path[i];
    for (u64 i = 0; i < 6; i++)
        part[base + i] = ".part-"[i];
    for (u64 i = base; i <= length; i++)
        part[i + 6] = path[i];
    const long name = reinterpret_cast<long>(part);
    const long fd = sys(SYS_OPEN, name, 01101 /* write, create, truncate */, 0666, 0, 0, 0);
    if (fd < 0)
        stop(EXIT_NO_OUTPUT, path, "cannot be made; check the folder and its permissions");
    const bool whole = write_all(fd, content, nbytes);
    if (sys(SYS_CLOSE, fd, 0, 0, 0, 0, 0) || !whole
        || sys(SYS_RENAME, name, reinterpret_cast<long>(path), 0, 0, 0, 0)) {
        sys(SYS_UNLINK, name, 0, 0, 0, 0, 0);
        stop(EXIT_NO_OUTPUT, path, "cannot be written; check the space on the disk");
    }
}

/* launch,kernel,seconds: adds launches that have run, from `first` to the one before `end`. */
static void add_times(const char *path, u32 first, u32 end, const u64 *nanoseconds)
{
    static long fd = -1;
    bool good = true;
    auto add = [&](const report &line) { good = good && write_all(fd, line.line, line.nbytes); };
    if (fd < 0) {
        const int flags = 01101; /* write, create, truncate */
        fd = sys(SYS_OPEN, reinterpret_cast<long>(path), flags, 0666, 0, 0, 0);
        if (fd < 0)
            stop(EXIT_NO_OUTPUT, path, "cannot be made; check the folder and its permissions");
        report head;
        add(head << "launch,kernel,seconds\n");
    }
    for (u32 i = first; i < end; i++) {
        report line;
        line << i << "," << kernels[launches[i].kernel].name << ",";
        line << nanoseconds[i] / 1000000000 << ".";
        for (u64 digit = 100000000; digit; digit /= 10)
            line << nanoseconds[i] / digit % 10;
        add(line << "\n");
    }
    if (!good)
        stop(EXIT_NO_OUTPUT, path, "cannot be written; check the space on the disk");
}

static u32 number_of_processes(const char *text)
{
    u32 count = 0;
    if (!*text) {
        static u64 mask[MOST_PROCESSES / 64];
        sys(SYS_SCHED_GETAFFINITY, 0, sizeof mask, reinterpret_cast<long>(mask), 0, 0, 0);
        for (u64 word : mask)
            count += static_cast<u32>(__builtin_popcountl(word));
        return count ? count : 1;
    }
    for (; *text >= '0' && *text <= '9' && count <= MOST_PROCESSES; text++)
        count = count * 10 + static_cast<u32>(*text - '0');
    if (*text || count < 1 || count > MOST_PROCESSES)
        stop(EXIT_USAGE, "PROCESSES", "is not a number of processes; write 1 to 1024");
    return count;
}

#if SIMGEN_KEEPS
#define STATE_WORD " [STATE]"
#else
#define STATE_WORD ""
#endif

/* `stack` is what the kernel leaves: argc, argv. */
extern "C" [[noreturn]] __attribute__((used)) void launcher(const u64 *stack)
{
    char *const *arg = reinterpret_cast<char *const *>(stack + 1);
    if (!has_vectors())
        stop(EXIT_NO_CPU, "CPU", "has no AVX2 and FMA; run another target");
    if (stack[0] < 4 || stack[0] > 5 + SIMGEN_KEEPS)
        stop(EXIT_USAGE, "arguments",
             "not as many as it takes; write DATA OUTPUTS LAUNCHES_CSV [PROCESSES" STATE_WORD "]");
    const u32 processes = number_of_processes(stack[0] > 4 ? arg[4] : "");
    make_arena();
    read_inputs(arg[1]);
#if SIMGEN_KEEPS
    if (stack[0] == 6 && open_state(arg[5]))
        load_state(arg[5], arena);
#endif
    make_workplace();
#if SIMGEN_SANITIZE && SIMGEN_KEEPS
    for (const step_tensor &each : step_tensors)
        if (state_head.mark[each.step] == FINISHED || state_head.mark[each.step] == GIVEN)
            written_before(each.offset, each.nbytes - GUARD_NBYTES);
#endif
    static u64 nanoseconds[LAUNCHES];
    start_workers(processes);
#if SIMGEN_KEEPS
    u32 first = 0; /* launch of the step */
    for (u32 i = 0; i < LAUNCHES; i++) {
        if (i && launches[i].step != launches[i - 1].step)
            first = i;
        if (state_head.mark[launches[i].step] != TO_RUN)
            continue;
        nanoseconds[i] = run_launch(i);
        if (i + 1 < LAUNCHES && launches[i].step == launches[i + 1].step)
            continue;
        add_times(arg[3], first, i + 1, nanoseconds);
        if (stack[0] == 6)
            leave(arg[5], arena, launches[i].step);
    }
    dismiss_workers();
    write_file(arg[2], arena + OUTPUTS_OFFSET, ARENA_NBYTES - OUTPUTS_OFFSET);
#else
    for (u32 i = 0; i < LAUNCHES; i++)
        nanoseconds[i] = run_launch(i);
    dismiss_workers();
    write_file(arg[2], arena + OUTPUTS_OFFSET, ARENA_NBYTES - OUTPUTS_OFFSET);
    add_times(arg[3], 0, LAUNCHES, nanoseconds);
#endif
    quit(EXIT_DONE);
}

__asm__(".text\n"
        ".globl _start\n"
        "_start:\n\t"
        "mov %rsp, %rdi\n\t"
        "and $-16, %rsp\n\t"
        "call launcher\n\t"
        "hlt");
#pragma clang attribute pop
