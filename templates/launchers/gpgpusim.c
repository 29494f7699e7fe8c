/* Runs a workload (plan.h) on GPGPU-Sim.
 *
 *     program DATA RESULTS PTX
 *
 * It runs in a folder that has gpgpusim.config and PTX, and is linked to GPGPU-Sim's
 * libcudart.so, in which the simulator is. It has that read PTX, puts the tensors of DATA into
 * one arena, starts the kernels in order, and leaves the arena's outputs and a line for each
 * launch in RESULTS. SIMGEN_KEEPS: what each step leaves goes to RESULTS/state.bin at once; the
 * steps that are marked there are not run again.
 *
 * GPGPU-Sim says what it has counted, and what is wrong, on stdout. That goes to
 * RESULTS/printed.txt, which is read after each launch, and emptied before the next: it is 150
 * KB for each launch. */
#include "plan.h"
#if SIMGEN_KEEPS
#include "state.h"
#endif

enum { SYS_FTRUNCATE = 77, SYS_DUP2 = 33 };
enum {
    EXIT_PTX = 40,
    EXIT_CONFIG = 30,
    COPY_TO_GPU = 1,
    COPY_FROM_GPU = 2,
    SIGNAL_ABORT = 6,
    SIGNAL_SEGMENT = 11
};

/* Of the simulator. The driver's calls to load a module do nothing there; these do it (its
 * libcuda/cuda_runtime_api.cc). The last two are C++. */
int cudaMalloc(void **, u64);
int cudaMemcpy(void *, const void *, u64, int);
int cudaDeviceSynchronize(void);
int cuLinkAddFile_v2(void *, int type, const char *path, u32 options, void *, void *);
int cuLaunchKernel(
    const void *, u32, u32, u32, u32, u32, u32, u32 shared_nbytes, void *, void **, void **);
void __cudaRegisterFunction(
    void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
void *context(void) __asm__("_Z13GPGPU_Contextv");
void load_resources(void *, const char *, u32)
    __asm__("_ZN13gpgpu_context33gpgpu_ptx_info_load_from_filenameEPKcj");
/* Of glibc. */
int putenv(char *);
int fflush(void *);
void (*signal(int, void (*)(int)))(int);
int __cxa_atexit(void (*)(void *), void *, void *);

static const struct kernel {
    const char *name;
    u32 shared_nbytes; /* that launches ask for, beside what the text declares */
} kernels[] = {
#define ROW(name, at, shared_nbytes, x, y, z) { name, shared_nbytes },
    EACH_KERNEL(ROW)
#undef ROW
};

static const u8 *data; /* what is in the file */
static u8 *arena;      /* where kernels find it */
static const char *results;
static const char *doing = "start"; /* what the simulator has been told to do */

/* ---- Files ---- */

struct path {
    char text[4096];
};

static struct path in_results(const char *name)
{
    struct path path;
    u64 n = 0;
    for (const char *at = results; *at; at++, n++)
        if (n < sizeof path.text - 32)
            path.text[n] = *at;
    if (n >= sizeof path.text - 32)
        stop(EXIT_NO_OUTPUT, "RESULTS", "the path is too long; name a shorter one");
    path.text[n++] = '/';
    do
        path.text[n++] = *name;
    while (*name++);
    return path;
}

static long create(const char *name, int flags)
{
    const struct path path = in_results(name);
    const long file =
        sys(SYS_OPEN, (long)path.text, 01102 | flags /* O_RDWR O_CREAT O_TRUNC */, 0644, 0, 0, 0);
    if (file < 0)
        stop(EXIT_NO_OUTPUT, path.text, "cannot be made; check the folder and its permissions");
    return file;
}

static void open_data(const char *path)
{
    const long file = sys(SYS_OPEN, (long)path, 0 /* O_RDONLY */, 0, 0, 0, 0);
    if (file < 0)
        stop(EXIT_NO_DATA, path, "cannot be opened; name the bundle's data.h5");
    const u64 nbytes = (u64)sys(SYS_LSEEK, file, 0, 2 /* SEEK_END */, 0, 0, 0);
    if (nbytes < sizeof(struct data_header) + (INPUTS + 1) * sizeof(struct data_entry))
        stop(EXIT_DATA_SIZE, path, "is shorter than its header; build the bundle again");
    const long at = sys(SYS_MMAP, 0, (long)nbytes, 1 /* PROT_READ */, 2 /* MAP_PRIVATE */, file, 0);
    if (at < 0)
        stop(EXIT_NO_DATA, path, "cannot be read; check the disk");
    data = (const u8 *)at;

    const struct data_header *header = (const struct data_header *)data;
    for (u32 i = 0; i < sizeof header->magic; i++)
        if (header->magic[i] != "simgenD1"[i])
            stop(EXIT_DATA_SIZE, path, "is not a data file of simgen; name the bundle's data.h5");
    for (u32 i = 0; i < sizeof data_id; i++)
        if (header->id[i] != data_id[i])
            stop(EXIT_DATA_ID, path, "holds other tensors or another seed; build the bundle again");
    if (header->file_nbytes != nbytes)
        stop(EXIT_DATA_SIZE, path, "is truncated or too long; build the bundle again");
    if (header->count != INPUTS + 1)
        stop(EXIT_DATA_SIZE, path, "has another number of tensors; build the bundle again");
    for (u32 i = 0; i <= INPUTS; i++) {
        const struct data_entry *entry = &header->entry[i];
        if (entry->nbytes > nbytes || entry->offset > nbytes - entry->nbytes
            || (i < INPUTS && entry->nbytes != inputs[i].nbytes))
            stop(EXIT_DATA_SIZE, path, "has a tensor of another size; build the bundle again");
    }
}

/* ---- What the simulator prints ---- */

#define PRINTED_NBYTES (8ul << 20) /* of it that are looked at: the last */
static long printed_file = -1;
static char printed[PRINTED_NBYTES + 1];

static void read_printed(void)
{
    const u64 nbytes = (u64)sys(SYS_LSEEK, printed_file, 0, 2 /* SEEK_END */, 0, 0, 0);
    const u64 kept = nbytes < PRINTED_NBYTES ? nbytes : PRINTED_NBYTES;
    if (!read_all(printed_file, printed, kept, nbytes - kept))
        stop(EXIT_NO_OUTPUT, "printed.txt", "cannot be read; check the disk");
    printed[kept] = 0;
}

static int begins(const char *text, const char *with)
{
    while (*with)
        if (*text++ != *with++)
            return 0;
    return 1;
}

/* Behind the last place of `words`, or 0. */
static const char *after(const char *words)
{
    const char *found = 0;
    u64 n = 0;
    while (words[n])
        n++;
    for (const char *at = printed; *at; at++)
        if (*at == *words && begins(at, words))
            found = at + n;
    return found;
}

static void say_line(const char *text)
{
    char line[400];
    u64 n = 0;
    while (text[n] && text[n] != '\n' && n + 1 < sizeof line) {
        line[n] = text[n];
        n++;
    }
    line[n] = 0;
    say(line);
}

/* What the simulator calls an error: the line with it, and its end. */
static const struct complaint {
    const char *printed, *fact;
    int whole_line, code;
} complaints[] = {
    { " Syntax error:", "GPGPU-Sim does not read this PTX: ", 1, EXIT_PTX },
    { "Parse error", "GPGPU-Sim does not read this PTX: ", 1, EXIT_PTX },
    { "deadlock detected",
        "the simulated GPU is in a deadlock: no instruction ends any more; a barrier that not all "
        "work-items reach does that: find out with simgen build --target host --sanitize",
        0, EXIT_TIMEOUT },
    { "instruction not implemented", "the kernel has an instruction that GPGPU-Sim lacks: ", 1,
        EXIT_PTX },
    { "not (yet) implemented", "the kernel has an instruction that GPGPU-Sim lacks: ", 1,
        EXIT_PTX },
    { "GPGPU-Sim ** ERROR: Cannot open config file",
        "GPGPU-Sim finds no gpgpusim.config; run it through run.sh", 0, EXIT_CONFIG },
    { "Unknown Option", "gpgpusim.config has an option that this GPGPU-Sim does not know: ", 1,
        EXIT_CONFIG },
    { "ERROR **", "", 1, EXIT_QUEUE },
};

static void complain(void)
{
    fflush(0);
    read_printed();
    for (u32 i = 0; i < sizeof complaints / sizeof *complaints; i++) {
        const char *at = after(complaints[i].printed);
        if (!at)
            continue;
        while (at > printed && at[-1] != '\n')
            at--;
        say("simgen: error: ");
        say(doing);
        say(": ");
        say(complaints[i].fact);
        if (complaints[i].whole_line) {
            say_line(at);
            say("; take another target, and report it to simgen");
        }
        say("\n");
        quit(complaints[i].code);
    }
}

/* The simulator ends by abort(), exit() or a wild pointer. */
__attribute__((noreturn)) static void ended(const char *how)
{
    static int told;
    if (told++)
        quit(EXIT_QUEUE);
    complain();
    const u64 length = sizeof printed - 1;
    u64 n = 0;
    while (n < length && printed[n])
        n++;
    const u64 last = n < 2000 ? n : 2000;
    sys(SYS_WRITE, 2, (long)(printed + n - last), (long)last, 0, 0, 0);
    say("\nsimgen: error: ");
    say(doing);
    say(": GPGPU-Sim ");
    say(how);
    say("; what it said last is in log.txt\n");
    quit(EXIT_QUEUE);
}

static void on_abort(int number)
{
    (void)number;
    ended("ended itself (a failed assertion, or abort)");
}

static void on_segment(int number)
{
    (void)number;
    ended("crashed (signal 11)");
}

static void on_exit(void *unused)
{
    (void)unused;
    ended("called exit");
}

/* ---- Counters ---- */

enum counter {
    CYCLES, THREAD_INSTRUCTIONS, INSTRUCTIONS, WORK_GROUPS,
    L1_ACCESSES, L1_MISSES, L1_PENDING, L2_ACCESSES, L2_MISSES, L2_PENDING,
    DRAM_READS, DRAM_WRITES, COUNTERS
};
/* The first two begin anew with each launch, the others do not (print_stats of its gpu-sim.cc). */
static const char *const counter_names[COUNTERS] = {
    "\ngpu_sim_cycle = ",
    "\ngpu_sim_insn = ",
    "\ngpgpu_n_tot_w_icount = ",
    "\ngpu_tot_issued_cta = ",
    "\tL1D_total_cache_accesses = ",
    "\tL1D_total_cache_misses = ",
    "\tL1D_total_cache_pending_hits = ",
    "\nL2_total_cache_accesses = ",
    "\nL2_total_cache_misses = ",
    "\nL2_total_cache_pending_hits = ",
    "\ntotal dram reads = ",
    "\ntotal dram writes = ",
};
static u64 counts[COUNTERS], before[COUNTERS];
static u64 clock_hz, atom_nbytes; /* of the GPU's clock; of what DRAM reads and writes at a time */
static int timed;

static u64 number_at(const char *at)
{
    u64 value = 0;
    while (*at == ' ')
        at++;
    for (; *at >= '0' && *at <= '9'; at++)
        value = value * 10 + (u64)(*at - '0');
    return value;
}

static u64 number_after(const char *words)
{
    const char *at = after(words);
    if (!at) {
        say("simgen: error: statistics: GPGPU-Sim printed no ");
        say_line(*words == '\n' ? words + 1 : words);
        say("; run it on a version that simgen knows\n");
        quit(EXIT_QUEUE);
    }
    return number_at(at);
}

/* What `counts` has since the launch before. */
static u64 since(enum counter which)
{
    return which <= THREAD_INSTRUCTIONS ? counts[which] : counts[which] - before[which];
}

static void count(void)
{
    memcpy(before, counts, sizeof counts);
    for (u32 i = 0; i < COUNTERS; i++)
        counts[i] = number_after(counter_names[i]);
}

/* ---- launches.csv ---- */

static struct {
    char text[4096];
    u64 length;
} row;
static long rows_file;

static void add(const char *words)
{
    while (*words && row.length < sizeof row.text)
        row.text[row.length++] = *words++;
}

static void add_digits(u64 value)
{
    char digits[21] = "";
    int at = sizeof digits - 1;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    add(digits + at);
}

static void add_number(u64 value)
{
    add(",");
    add_digits(value);
}

static void add_seconds(u64 picoseconds)
{
    add_number(picoseconds / 1000000000000);
    add(".");
    for (u64 digit = 100000000000; digit; digit /= 10) {
        const char text[] = { (char)('0' + picoseconds / digit % 10), 0 };
        add(text);
    }
}

static void end_row(void)
{
    add("\n");
    if (!write_all(rows_file, row.text, row.length))
        stop(EXIT_NO_OUTPUT, "launches.csv", "cannot be written; check the space on the disk");
    row.length = 0;
}

static void begin_rows(void)
{
    rows_file = create("launches.csv", 0);
    add("kernel,host_seconds");
    if (timed)
        add(",seconds,cycles,instructions,thread_instructions,work_groups,l1_hits,l1_misses,"
            "l1_mshr_hits,l2_hits,l2_misses,l2_mshr_hits,dram_reads,dram_writes,dram_read_bytes,"
            "dram_written_bytes");
    end_row();
}

/* What ran: the version and its build, as it says them, and how. */
static void write_machine(void)
{
    const long file = create("machine.json", 0);
    const char *at = after("GPGPU-Sim Simulator Version ");
    add("{\"version\": \"");
    for (; at && *at && *at != '\n' && !begins(at, " ***") && row.length < 400; at++) {
        const char text[] = { *at == '"' || *at == '\\' || *at < ' ' ? '?' : *at, 0 };
        add(text);
    }
    add(timed ? "\", \"mode\": \"timing\"" : "\", \"mode\": \"functional\"");
    add(", \"config\": \"" CONFIG "\", \"clock\": \"");
    add_digits(clock_hz / 1000000);
    add(" MHz\"}\n");
    if (!write_all(file, row.text, row.length) || sys(SYS_CLOSE, file, 0, 0, 0, 0, 0) < 0)
        stop(EXIT_NO_OUTPUT, "machine.json", "cannot be written; check the space on the disk");
    row.length = 0;
}

static void add_cache(enum counter accesses, enum counter misses, enum counter pending)
{
    add_number(since(accesses) - since(misses) - since(pending));
    add_number(since(misses));
    add_number(since(pending));
}

static void list_launch(const char *kernel, u64 host_nanoseconds)
{
    add(kernel);
    add_seconds(host_nanoseconds * 1000);
    if (timed) {
        count();
        add_seconds((u64)((double)counts[CYCLES] * 1e12 / (double)clock_hz + 0.5));
        add_number(since(CYCLES));
        add_number(since(INSTRUCTIONS));
        add_number(since(THREAD_INSTRUCTIONS));
        add_number(since(WORK_GROUPS));
        add_cache(L1_ACCESSES, L1_MISSES, L1_PENDING);
        add_cache(L2_ACCESSES, L2_MISSES, L2_PENDING);
        add_number(since(DRAM_READS));
        add_number(since(DRAM_WRITES));
        add_number(since(DRAM_READS) * atom_nbytes);
        add_number(since(DRAM_WRITES) * atom_nbytes);
    }
    end_row();
}

/* ---- The GPU ---- */

static void check(int error, int code, const char *cure)
{
    if (!error)
        return;
    complain();
    stop(code, doing, cure);
}

static void open_simulator(const char *ptx)
{
    /* It adds "/PTX" to the text in the environment, where that lies. */
    static char place[4096] = "PTX_JIT_PATH=.";
    printed_file = create("printed.txt", 02000 /* O_APPEND */);
    sys(SYS_DUP2, printed_file, 1, 0, 0, 0, 0);
    signal(SIGNAL_ABORT, on_abort);
    signal(SIGNAL_SEGMENT, on_segment);
    __cxa_atexit(on_exit, 0, 0);
    putenv(place);
    doing = "gpgpusim";
    check(cuLinkAddFile_v2(0, 1 /* CU_JIT_INPUT_PTX */, ptx, 0, 0, 0), EXIT_PTX,
        "the PTX was refused");
    complain(); /* after an error it goes on, and lacks kernels later */
    load_resources(context(), ptx, SM);
    complain();
    timed = !after("simulation mode 1 ");
    clock_hz = number_after("\nGPGPU-Sim uArch: clock freqs: ");
    atom_nbytes = number_after("\n-gpgpu_dram_buswidth ")
                  * number_after("\n-gpgpu_dram_burst_length ")
                  * number_after("\n-gpgpu_n_mem_per_ctrlr ");
    for (u32 i = 0; i < KERNELS; i++) {
        doing = kernels[i].name;
        /* The name is the key under which launches find it. */
        __cudaRegisterFunction((void **)1, doing, (char *)doing, doing, -1, 0, 0, 0, 0, 0);
    }
    complain();
}

static void put(u64 offset, const void *from, u64 nbytes)
{
    check(cudaMemcpy(arena + offset, from, nbytes, COPY_TO_GPU), EXIT_QUEUE, "cudaMemcpy failed");
}

/* Inputs get their values. Of an output, the end and the guard behind it get the canary, so that
 * an output that no kernel wrote and a write past its end both show. No more is copied: what is,
 * lies in L2 when the first kernel starts (-gpgpu_perf_sim_memcpy). */
static void load(void)
{
    const struct data_entry *entry = ((const struct data_header *)data)->entry;
    const u64 most = entry[INPUTS].nbytes - GUARD_NBYTES;
    doing = "tensors";
    check(cudaMalloc((void **)&arena, ARENA_NBYTES), EXIT_NO_MEMORY, "cudaMalloc failed");
    for (u32 i = 0; i < INPUTS; i++)
        put(inputs[i].offset, data + entry[i].offset, inputs[i].nbytes);
    for (u32 i = 0; i < OUTPUTS; i++) {
        const u64 fill = outputs[i].nbytes < most ? outputs[i].nbytes : most;
        const u64 nbytes = fill + GUARD_NBYTES;
        put(outputs[i].offset + outputs[i].nbytes - fill,
            data + entry[INPUTS].offset + entry[INPUTS].nbytes - nbytes, nbytes);
    }
}

static u64 now(void)
{
    u64 time[2] = { 0 };
    sys(SYS_CLOCK_GETTIME, 1 /* CLOCK_MONOTONIC */, (long)time, 0, 0, 0, 0);
    return time[0] * 1000000000 + time[1];
}

static void run_launch(u64 index)
{
    const struct launch *launch = &launches[index];
    void *arguments[MAX_ARGS], *values[MAX_ARGS];
    for (u32 i = 0; i < launch->args; i++) {
        values[i] = arena + launch->arg[i];
        arguments[i] = &values[i];
    }
    const struct kernel *kernel = &kernels[launch->kernel];
    doing = kernel->name;
    fflush(0);
    sys(SYS_FTRUNCATE, printed_file, 0, 0, 0, 0, 0);
    const u64 start = now();
    check(cuLaunchKernel(kernel->name, launch->grid[0], launch->grid[1], launch->grid[2],
                         launch->block, 1, 1, kernel->shared_nbytes, 0, arguments, 0),
          EXIT_KERNEL, "the launch was refused");
    check(cudaDeviceSynchronize(), EXIT_KERNEL, "the simulator does not end the launch");
    const u64 end = now();
    complain();
    list_launch(kernel->name, end - start);
}

#if SIMGEN_KEEPS
/* The arena in this program's memory, for the tensors that pass between state.bin and the GPU. */
static u8 *here;
static struct path state;

static void begin_state(void)
{
    doing = "tensors";
    state = in_results("state.bin");
    const long at =
        sys(SYS_MMAP, 0, (long)ARENA_NBYTES, 3, 0x22 /* MAP_PRIVATE MAP_ANONYMOUS */, -1, 0);
    if (at < 0)
        stop(EXIT_NO_MEMORY, doing, "no room for the tensors; choose a smaller batch");
    here = (u8 *)at;
    if (!open_state(state.text))
        return;
    load_state(state.text, here);
    for (u32 i = 0; i < STEP_TENSORS; i++) {
        const struct step_tensor *each = &step_tensors[i];
        const u8 mark = state_head.mark[each->step];
        if (mark == FINISHED || mark == GIVEN)
            put(each->offset, here + each->offset, each->nbytes);
    }
}

/* Reading changes nothing in the timing model: it is not of the simulated time. */
static void keep(u32 step)
{
    doing = "tensors";
    for (u32 i = 0; i < STEP_TENSORS; i++) {
        const struct step_tensor *each = &step_tensors[i];
        if (each->step == step)
            check(
                cudaMemcpy(here + each->offset, arena + each->offset, each->nbytes, COPY_FROM_GPU),
                EXIT_QUEUE, "cudaMemcpy failed");
    }
    leave(state.text, here, step);
}

#endif
static void run_all(void)
{
    for (u64 i = 0; i < LAUNCHES; i++) {
#if SIMGEN_KEEPS
        if (state_head.mark[launches[i].step] != TO_RUN)
            continue;
        run_launch(i);
        if (i + 1 == LAUNCHES || launches[i].step != launches[i + 1].step)
            keep(launches[i].step);
#else
        run_launch(i);
#endif
    }
}

static void write_outputs(void)
{
    const u64 nbytes = ARENA_NBYTES - OUTPUTS_OFFSET;
    doing = "outputs.bin";
    const long at = sys(SYS_MMAP, 0, (long)nbytes, 3, 0x22 /* MAP_PRIVATE MAP_ANONYMOUS */, -1, 0);
    if (at < 0)
        stop(EXIT_NO_MEMORY, doing, "no room for the tensors; choose a smaller batch");
    check(cudaMemcpy((void *)at, arena + OUTPUTS_OFFSET, nbytes, COPY_FROM_GPU), EXIT_QUEUE,
        "cudaMemcpy failed");
    const long file = create("outputs.bin", 0);
    if (!write_all(file, (const void *)at, nbytes) || sys(SYS_CLOSE, file, 0, 0, 0, 0, 0) < 0)
        stop(EXIT_NO_OUTPUT, doing, "cannot be written; check the space on the disk");
}

int main(int count_of_words, char **words)
{
    if (count_of_words != 4)
        stop(EXIT_USAGE, "arguments", "not as many as it takes; write DATA RESULTS PTX");
    results = words[2];
    open_data(words[1]);
    open_simulator(words[3]);
    write_machine();
    begin_rows();
    load();
#if SIMGEN_KEEPS
    begin_state();
#endif
    run_all();
    write_outputs();
    quit(EXIT_DONE); /* at once: its threads need not end */
}

/* Where the dynamic linker starts the program. The C library calls main. */
int __libc_start_main(int (*)(int, char **), int, char **, void (*)(void), void (*)(void),
                      void (*)(void), void *);
__attribute__((noreturn, used)) static void start(u64 *stack, void (*at_exit)(void))
{
    __libc_start_main(main, (int)stack[0], (char **)(stack + 1), 0, 0, at_exit, stack);
    quit(EXIT_QUEUE);
}

__attribute__((naked, noreturn)) void _start(void)
{
    __asm__("mov %rsp, %rdi\n\tmov %rdx, %rsi\n\tand $-16, %rsp\n\tcall start");
}
