/* A HIP host program, which runs a workload (plan.h).
 *
 *     program DATA OUTPUTS                               under gem5's syscall emulation
 *     program DATA OUTPUTS LAUNCHES_CSV WARMUP REPEATS   TIMED: on this machine's GPU
 *     program                                            GUEST: data.h5 is behind its own last byte
 *
 * It loads the code objects that are embedded here with hipModuleLoadData, puts the tensors of DATA
 * into one arena, launches the kernels in order, and writes the arena's outputs to OUTPUTS.
 * LAUNCHES_CSV gets the time of each launch, between HIP events, in REPEATS rounds of all launches,
 * before them WARMUP rounds that are not timed. OUTPUTS are those of the first round of all.
 *
 * The guest of a full-system simulation ends in it: the statistics of each launch, and the outputs
 * (outputs.bin), leave the simulation through gem5's own program m5.
 *
 * The compiler is simgen's (no ROCm), or ROCm's:
 *
 *     HIP_PLATFORM=amd hipcc -D__HIP_PLATFORM_AMD__ -x c -O2 hip.c -lamdhip64 -o program */
#include "hip_api.h"
#include "plan.h"

/* ELF code objects, each from a page boundary on. */
__asm__(".data\n"
        ".balign 4096\n"
        "code_objects:\n"
        ".incbin \"code.img\"\n"
        ".text\n");
extern u8 code_objects[] __attribute__((visibility("hidden")));

static const struct kernel {
    const char *name;
    u64 code_object; /* offset */
} kernels[] = {
#define ROW(name, code_object, lds_nbytes, x, y, z) { name, code_object },
    EACH_KERNEL(ROW)
#undef ROW
};

static u8 *arena; /* where kernels find it */
static long data_file;
static const u8 *data; /* what is in it, in the memory of the CPU */
static hipFunction_t functions[KERNELS];

/* Ends the program unless a call of HIP succeeded; `place` is what it was for. */
static void check(hipError_t error, int code, const char *place, const char *cure)
{
    if (error == hipSuccess)
        return;
    say("simgen: error: ");
    say(place);
    say(": ");
    say(hipGetErrorName(error));
    say(" (");
    say(hipGetErrorString(error));
    say("); ");
    say(cure);
    say("\n");
    quit(error == hipErrorOutOfMemory ? EXIT_NO_MEMORY : code);
}

/* ---- Files ---- */

#if !HOST_MEMORY
static u8 *map_memory(u64 nbytes)
{
    const long at = sys(SYS_MMAP, 0, (long)nbytes, 3, 0x22 /* MAP_PRIVATE MAP_ANONYMOUS */, -1, 0);
    if (at < 0)
        stop(EXIT_NO_MEMORY, "memory", "no room for the tensors; choose a smaller batch");
    return (u8 *)at;
}

#endif
#if GUEST
extern const u8 __ehdr_start[]; /* the program's first byte in memory: its ELF header */

/* Where the program file ends and the data begins: the table of sections is the last of it. */
static u64 program_nbytes(void)
{
    const u64 sections = *(const u64 *)(__ehdr_start + 40);
    const u16 *size_and_count = (const u16 *)(__ehdr_start + 58);
    return sections + (u64)size_and_count[0] * size_and_count[1];
}
#endif

static void open_data(const char *path)
{
    data_file = sys(SYS_OPEN, (long)path, 0 /* O_RDONLY */, 0, 0, 0, 0);
    if (data_file < 0)
        stop(EXIT_NO_DATA, path, "cannot be opened; name the bundle's data.h5");
    u64 nbytes = (u64)sys(SYS_LSEEK, data_file, 0, 2 /* SEEK_END */, 0, 0, 0);
#if GUEST
    const u64 before = program_nbytes();
#else
    const u64 before = 0;
#endif
    const u64 least = sizeof(struct data_header) + (INPUTS + 1) * sizeof(struct data_entry);
    if (nbytes < before + least)
        stop(EXIT_DATA_SIZE, path, "is shorter than its header; build the bundle again");
    const long at =
        sys(SYS_MMAP, 0, (long)nbytes, 1 /* PROT_READ */, 2 /* MAP_PRIVATE */, data_file, 0);
    if (at < 0)
        stop(EXIT_NO_DATA, path, "cannot be read; check the disk");
    data = (const u8 *)at + before;
    nbytes -= before;

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

/* A file has a temporary name beside its own until it is whole. */
struct output {
    const char *path;
    char part[4096];
    long file;
};

static void open_output(struct output *output, const char *path)
{
    u64 length = 0;
    while (path[length])
        length++;
    if (length + sizeof ".part" > sizeof output->part)
        stop(EXIT_NO_OUTPUT, path, "the path is too long; name a shorter one");
    memcpy(output->part, path, length);
    memcpy(output->part + length, ".part", sizeof ".part");
    output->path = path;
    output->file =
        sys(SYS_OPEN, (long)output->part, 01101 /* O_WRONLY O_CREAT O_TRUNC */, 0644, 0, 0, 0);
    if (output->file < 0)
        stop(EXIT_NO_OUTPUT, output->part, "cannot be made; check the folder and its permissions");
}

static void write_output(const struct output *output, const void *content, u64 nbytes)
{
    if (!write_all(output->file, content, nbytes) || sys(SYS_CLOSE, output->file, 0, 0, 0, 0, 0) < 0
        || sys(SYS_RENAME, (long)output->part, (long)output->path, 0, 0, 0, 0) < 0)
        stop(EXIT_NO_OUTPUT, output->path, "cannot be written; check the space on the disk");
}

static struct output outputs_file;
#if TIMED
static struct output times_file;
#endif
#if GUEST

/* gem5's program in the guest, which reaches the simulator from a CPU that KVM runs, too. */
static void m5(const char *command, const char *argument)
{
    static const char *const places[] = { "/sbin/m5", "/usr/local/bin/m5", "/usr/bin/m5" };
    const char *words[] = { "m5", command, argument, 0 };
    const char *environment[] = { 0 };
    int status = 0;
    const long child = sys(SYS_FORK, 0, 0, 0, 0, 0, 0);
    if (child == 0) {
        for (u32 i = 0; i < sizeof places / sizeof *places; i++)
            sys(59 /* execve */, (long)places[i], (long)words, (long)environment, 0, 0, 0);
        quit(127);
    }
    if (child < 0 || sys(SYS_WAIT4, child, (long)&status, 0, 0, 0, 0) != child || status)
        stop(EXIT_NO_OUTPUT, command, "the disk image has no working m5; take gem5's own image");
}
#endif

/* ---- The GPU ---- */

static void open_gpu(void)
{
    int devices = 0;
    check(hipGetDeviceCount(&devices), EXIT_NO_DRIVER, "hipGetDeviceCount",
          "run it on a machine with an AMD GPU that this version of ROCm supports");
    if (devices < 1)
        stop(EXIT_NO_DRIVER, "hipGetDeviceCount", "no GPU; run it on a machine with an AMD GPU");
#if TIMED
    char name[256] = "";
    int version = 0;
    check(hipDeviceGetName(name, sizeof name, 0), EXIT_QUEUE, "hipDeviceGetName", "check the GPU");
    check(hipRuntimeGetVersion(&version), EXIT_QUEUE, "hipRuntimeGetVersion", "check ROCm");
    say("simgen: gpu: ");
    say(name);
    say("\nsimgen: hip_runtime: ");
    say_number((u64)version);
    say("\n");
#endif
}

#if HOST_MEMORY
/* ROCm 4.0, which gem5's image has, loads code objects of version 3 at most. They differ from
 * those of version 4 in the ELF header. There a bit says whether the code can have its page
 * faults retried (XNACK), and ROCm 4.0 takes only code of which the bit is what it holds the GPU
 * to do: an APU yes, others not (ROCr, GpuAgent's constructor). Code that leaves it open, as
 * this here, can do both. */
static void lower_version(void)
{
    enum { ABI_VERSION = 8, E_FLAGS = 48, MACHINE = 0xff, XNACK_V3 = 0x100 };
    int version = 0;
    check(hipRuntimeGetVersion(&version), EXIT_QUEUE, "hipRuntimeGetVersion", "check ROCm");
    if (version >= 10000000) /* before ROCm 4.5 it is the number of a build, a small one */
        return;
    for (u32 i = 0; i < KERNELS; i++) {
        u8 *elf = code_objects + kernels[i].code_object;
        elf[ABI_VERSION] = 1; /* version 3 */
        *(u32 *)(elf + E_FLAGS) = (*(u32 *)(elf + E_FLAGS) & MACHINE) | (APU ? XNACK_V3 : 0);
    }
}

#endif
static void load_kernels(void)
{
#if HOST_MEMORY
    lower_version();
#endif
    for (u32 i = 0; i < KERNELS; i++) {
        hipModule_t module;
        check(hipModuleLoadData(&module, code_objects + kernels[i].code_object), EXIT_QUEUE,
              kernels[i].name, "the kernel is for " ARCH "; build it for your GPU with --arch");
        check(hipModuleGetFunction(&functions[i], module, kernels[i].name), EXIT_QUEUE,
              kernels[i].name, "build the bundle again");
    }
}

#if HOST_MEMORY
/* The GPU of an APU has the memory of the CPU. Reading a file into it costs no simulated
 * instruction; a copy by hipMemcpy costs many, and does not work on every version of gem5. */
static void allocate(void)
{
    check(hipHostMalloc((void **)&arena, ARENA_NBYTES, 0), EXIT_NO_MEMORY, "hipHostMalloc",
          "give gem5 a larger --mem-size");
}

static void put(u8 *to, const char *path, u64 from, u64 nbytes)
{
    if (!read_all(data_file, to, nbytes, from))
        stop(EXIT_NO_DATA, path, "cannot be read; check the disk");
}
#else
static void allocate(void)
{
    check(hipMalloc((void **)&arena, ARENA_NBYTES), EXIT_NO_MEMORY, "hipMalloc",
          "choose a smaller batch");
}

static void put(u8 *to, const char *path, u64 from, u64 nbytes)
{
    check(hipMemcpy(to, data + from, nbytes, hipMemcpyHostToDevice), EXIT_QUEUE, path,
          "hipMemcpy failed; check the GPU");
}
#endif

/* Inputs get their values. What no kernel writes must show, and what it writes past an end:
 * outputs have the canary at their end, and in the guard behind it. Where launches are TIMED,
 * outputs are the canary before, and so is all that surrounds them. */
static void load(const char *path)
{
    const struct data_entry *entry = ((const struct data_header *)data)->entry;
#if TIMED
    u32 canary;
    memcpy(&canary, data + entry[INPUTS].offset, sizeof canary);
    check(hipMemsetD32((hipDeviceptr_t)arena, (int)canary, ARENA_NBYTES / 4), EXIT_QUEUE,
          "hipMemsetD32", "check the GPU");
#endif
    for (u32 i = 0; i < INPUTS; i++)
        put(arena + inputs[i].offset, path, entry[i].offset, inputs[i].nbytes);
#if !TIMED
    const u64 most = entry[INPUTS].nbytes - GUARD_NBYTES;
    for (u32 i = 0; i < OUTPUTS; i++) {
        const u64 fill = outputs[i].nbytes < most ? outputs[i].nbytes : most;
        u8 *end = arena + outputs[i].offset + outputs[i].nbytes;
        put(end - fill, path, entry[INPUTS].offset, fill + GUARD_NBYTES);
    }
#endif
}

/* Work-items of a work-group, and the bytes of LDS that the launch asks for. */
#if SIMGEN_OWN
#define GROUP                                                                                      \
    areas[index].group[0], areas[index].group[1], areas[index].group[2], areas[index].lds_nbytes
#else
#define GROUP launch->block, 1, 1, 0
#endif

static void run_launch(u64 index)
{
    const struct launch *launch = &launches[index];
#if SIMGEN_OWN
    /* The runtime fills in what it leaves behind the kernel's own arguments. */
    u64 nbytes = areas[index].nbytes;
    u8 arguments[1024] __attribute__((aligned(16)));
    put_arguments(arguments, index, (u64)arena);
#else
    u64 arguments[MAX_ARGS], nbytes = launch->args * sizeof *arguments;
    for (u32 i = 0; i < launch->args; i++)
        arguments[i] = (u64)(arena + launch->arg[i]);
#endif
    void *extra[] = { HIP_LAUNCH_PARAM_BUFFER_POINTER, arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE,
        &nbytes, HIP_LAUNCH_PARAM_END };
    const char *name = kernels[launch->kernel].name;
    check(hipModuleLaunchKernel(functions[launch->kernel], launch->grid[0], launch->grid[1],
                                launch->grid[2], GROUP, 0, 0, extra),
          EXIT_KERNEL, name, "the launch was refused");
#if !TIMED
    /* Kernels that overlap would have their statistics in common. */
    check(hipDeviceSynchronize(), EXIT_KERNEL, name,
          "find out why with: simgen build --target host --sanitize");
#endif
}

static void write_outputs(void)
{
#if HOST_MEMORY
    write_output(&outputs_file, arena + OUTPUTS_OFFSET, ARENA_NBYTES - OUTPUTS_OFFSET);
#else
    u8 *result = map_memory(ARENA_NBYTES - OUTPUTS_OFFSET);
    check(hipMemcpy(result, arena + OUTPUTS_OFFSET, ARENA_NBYTES - OUTPUTS_OFFSET,
                    hipMemcpyDeviceToHost),
          EXIT_QUEUE, "hipMemcpy", "check the GPU");
    write_output(&outputs_file, result, ARENA_NBYTES - OUTPUTS_OFFSET);
#endif
#if GUEST
    m5("writefile", outputs_file.path);
#endif
}

#if TIMED
#include "hip_times.h"
#else
#if DUMPS
/* m5_dump_reset_stats (0x42), now and once: this gem5's apu_se.py does not do it when a kernel
 * ends. Its result is written to RAX. An illegal instruction on hardware. */
#define M5_DUMP_RESET_STATS() \
    __asm__ volatile(".byte 0x0f, 0x04, 0x42, 0x00" : : "D"(0ul), "S"(0ul) : "rax", "memory")

#endif
static void run_all(void)
{
#if GUEST
    m5("resetstats", 0); /* booting and copying belong to no kernel */
#endif
    for (u64 i = 0; i < LAUNCHES; i++) {
        run_launch(i);
#if GUEST
        m5("dumpresetstats", 0);
#elif DUMPS
        M5_DUMP_RESET_STATS();
#endif
    }
    write_outputs();
}
#endif

#if TIMED
#define MORE_WORDS " LAUNCHES_CSV WARMUP REPEATS"
#else
#define MORE_WORDS ""
#endif

/* All files are checked before the GPU is touched: a wrong path must not cost hours. */
int main(int count, char **words)
{
#if GUEST
    (void)count, (void)words;
    const char *path = "/proc/self/exe";
#else
    if (count != (TIMED ? 6 : 3))
        stop(EXIT_USAGE, "arguments", "not as many as it takes; write DATA OUTPUTS" MORE_WORDS);
    const char *path = words[1];
#endif
#if TIMED
    const u64 warmup = number(words[4], "WARMUP"), repeats = number(words[5], "REPEATS");
    if (!repeats)
        stop(EXIT_USAGE, "REPEATS", "is 0; write 1 or more");
#endif
    open_data(path);
    open_output(&outputs_file, GUEST ? "outputs.bin" : words[2]);
#if TIMED
    open_output(&times_file, words[3]);
#endif
    open_hip();
    open_gpu();
    load_kernels();
    allocate();
    load(path);
#if TIMED
    run_all(warmup, repeats);
#else
    run_all();
#endif
    quit(EXIT_DONE); /* at once: what the runtime does at its end is not part of the workload */
}
#ifndef __HIP_PLATFORM_AMD__

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
#endif
