/* Runs the kernels of a workload (host_kernels.cpp) on this CPU.
 *
 *     program DATA OUTPUTS LAUNCHES_CSV [PROCESSES] [STATE]
 *
 * DATA is data.h5; OUTPUTS becomes the arena from plan.outputs_offset to its end; LAUNCHES_CSV the
 * wall time of each launch that ran. PROCESSES is how many run work-groups at the same time;
 * without it, or where it is empty, that is one for each CPU that this process may use.
 * Where plan.keeps, what each step leaves goes to STATE at once; the steps that are marked there
 * are not run again.
 *
 * Launches are run by worker processes, which take work-groups from a shared counter. Processes,
 * not threads: LDS is static memory, private to each of them, and a worker that crashes is seen
 * by its parent. All of them share the arena. */
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
    const long at = map(plan.arena_nbytes, SHARED);
    if (at < 0)
        stop(EXIT_NO_MEMORY, "memory", "no room for the tensors; choose a smaller batch");
    arena = reinterpret_cast<u8 *>(at);
    u32 *words = reinterpret_cast<u32 *>(at);
    for (u64 i = 0; i < plan.arena_nbytes / 4; i++)
        words[i] = plan.canary;
}

static void read_inputs(const char *path)
{
    const u64 head_nbytes = sizeof(data_header) + (plan.inputs + 1) * sizeof(data_entry);
    const long at = map(head_nbytes, PRIVATE);
    if (at < 0)
        stop(EXIT_NO_MEMORY, "memory", "no room for the header of the data; free some");
    const data_header &header = *reinterpret_cast<const data_header *>(at);
    const long fd = sys(SYS_OPEN, reinterpret_cast<long>(path), 0 /* to read */, 0, 0, 0, 0);
    if (fd < 0)
        stop(EXIT_NO_DATA, path, "cannot be opened; build the bundle again");
    if (!read_all(fd, reinterpret_cast<void *>(at), head_nbytes, 0))
        stop(EXIT_DATA_SIZE, path, "is shorter than its header; build the bundle again");
    for (u32 i = 0; i < 8; i++)
        if (header.magic[i] != "simgenD1"[i])
            stop(EXIT_DATA_SIZE, path, "is not a data file of simgen; build the bundle again");
    const long nbytes = sys(SYS_LSEEK, fd, 0, 2 /* from the end */, 0, 0, 0);
    if (nbytes < 0 || static_cast<u64>(nbytes) != header.file_nbytes)
        stop(EXIT_DATA_SIZE, path, "is truncated or too long; build the bundle again");
    for (u32 i = 0; i < 32; i++)
        if (header.id[i] != plan.data_id[i])
            stop(EXIT_DATA_ID, path, "holds other tensors or another seed; build the bundle again");
    if (header.count != plan.inputs + 1)
        stop(EXIT_DATA_SIZE, path, "has another number of tensors; build the bundle again");
    const data_entry *entry = header.entry;
    for (u32 i = 0; i < plan.buffers; i++) {
        const buffer &each = plan.buffer[i];
        if (!each.input)
            continue;
        if (entry->nbytes != each.nbytes)
            stop(EXIT_DATA_SIZE, path, "has a tensor of another size; build the bundle again");
        if (!read_all(fd, arena + each.offset, each.nbytes, entry++->offset))
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
        line << i << "," << launch_at(i).kernel << ",";
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

#define USAGE "not as many as it takes; write DATA OUTPUTS LAUNCHES_CSV "

/* `stack` is what the kernel leaves: argc, argv. */
extern "C" [[noreturn]] __attribute__((used)) void launcher(const u64 *stack)
{
    char *const *arg = reinterpret_cast<char *const *>(stack + 1);
    if (!has_vectors())
        stop(EXIT_NO_CPU, "CPU", "has no AVX2 and FMA; run another target");
    if (stack[0] < 4 || stack[0] > 5 + plan.keeps)
        stop(EXIT_USAGE, "arguments",
             plan.keeps ? USAGE "[PROCESSES [STATE]]" : USAGE "[PROCESSES]");
    const u32 processes = number_of_processes(stack[0] > 4 ? arg[4] : "");
    make_arena();
    read_inputs(arg[1]);
    const char *const state = stack[0] == 6 ? arg[5] : nullptr;
    if (state)
        open_steps(state);
    make_workplace();
    start_workers(processes);
    const long times = map(plan.launches * sizeof(u64), PRIVATE);
    if (times < 0)
        stop(EXIT_NO_MEMORY, "memory", "no room for the times of launches; free some");
    u64 *const nanoseconds = reinterpret_cast<u64 *>(times);
    u32 first = 0; /* launch of the step */
    for (u32 i = 0; i < plan.launches; i++) {
        const u32 step = launch_at(i).step;
        if (i && step != launch_at(i - 1).step)
            first = i;
        if (!to_run(step))
            continue;
        nanoseconds[i] = run_launch(i);
        if (!plan.keeps || (i + 1 < plan.launches && step == launch_at(i + 1).step))
            continue;
        add_times(arg[3], first, i + 1, nanoseconds);
        if (state)
            keep_step(state, step);
    }
    dismiss_workers();
    write_file(arg[2], arena + plan.outputs_offset, plan.arena_nbytes - plan.outputs_offset);
    if (!plan.keeps)
        add_times(arg[3], 0, plan.launches, nanoseconds);
    quit(EXIT_DONE);
}

__asm__(".text\n"
        ".globl _start\n"
        "_start:\n\t"
        "mov %rsp, %rdi\n\t"
        "and $-16, %rsp\n\t"
        "call launcher\n\t"
        "hlt");
