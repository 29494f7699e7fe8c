/* Runs a workload (plan.h) on the GPU model of gem5's syscall-emulation mode: no ROCm, no C
 * library.
 *
 *     binary DATA OUTPUTS [STATE]
 *
 * The program talks to gem5's emulated /dev/kfd itself. It reads the tensors of DATA into one
 * arena, makes QUEUES AQL queues, and for each launch writes a dispatch packet, rings the
 * doorbell and sleeps in the driver until the GPU is done. Then it writes the arena's outputs to
 * OUTPUTS.
 *
 * SIMGEN_KEEPS: what each step leaves goes to STATE at once; the steps that are marked there are
 * not run again. With several QUEUES, steps that do not depend on each other run at once, but
 * not with a STATE.
 *
 * Nothing here costs simulated instructions per byte: a system call moves data in no simulated
 * time, and the code objects are embedded as memory images that need no loader. */
#include "plan.h"
#if SIMGEN_KEEPS
#include "state.h"
#endif

/* Memory images of the code objects, each from a page boundary on. */
#if RELOCATED && !DISCRETE
static u8 code[] __attribute__((aligned(4096))) = {
#else
static const u8 code[] __attribute__((aligned(4096))) = {
#endif
#embed "code.img"
};

struct kernel {
    const char *name;
    u32 descriptor; /* offset of its kernel descriptor in `code` */
    u32 lds_nbytes; /* per work-group */
    u16 group[3];   /* work-items of a work-group in each dimension */
};
static const struct kernel kernels[] = {
#define ROW(name, descriptor, lds_nbytes, x, y, z) { name, descriptor, lds_nbytes, { x, y, z } },
    EACH_KERNEL(ROW)
#undef ROW
};

/* ---- The interface of the Linux driver (include/uapi/linux/kfd_ioctl.h) ---- */

struct kfd_create_queue {
    u64 ring_base, write_pointer, read_pointer, doorbell_offset;
    u32 ring_nbytes, gpu_id, type, percentage, priority, queue_id;
    u64 eop_buffer, eop_nbytes, context;
    u32 context_nbytes, control_stack_nbytes;
};
struct kfd_create_event {
    u64 page_offset;
    u32 trigger_data, type, auto_reset, node_id, event_id, slot;
};
struct kfd_event_data {
    u64 exception[4], extension;
    u32 event_id, pad;
};
struct kfd_wait_events {
    u64 events;
    u32 count, all, timeout_ms, result;
};
#if DISCRETE
struct kfd_alloc_memory {
    u64 address, nbytes, handle, mmap_offset;
    u32 gpu_id, flags;
};
#endif

#define KFD_IOWR(number, type) (3u << 30 | (u32)sizeof(type) << 16 | 'K' << 8 | (number))
#define KFD_CREATE_QUEUE KFD_IOWR(0x02, struct kfd_create_queue)
#define KFD_CREATE_EVENT KFD_IOWR(0x08, struct kfd_create_event)
#define KFD_WAIT_EVENTS KFD_IOWR(0x0c, struct kfd_wait_events)
#define KFD_QUEUE_TYPE_AQL 2
#if DISCRETE
#define KFD_ALLOC_MEMORY_OF_GPU KFD_IOWR(0x16, struct kfd_alloc_memory)
#define KFD_MEMORY_GTT (1u << 1)
#define KFD_MEMORY_EXECUTABLE (1u << 30)
#define KFD_MEMORY_WRITABLE (1u << 31)
#endif

/* ---- The interface of the GPU (HSA Platform System Architecture; amd_hsa_queue.h) ---- */

struct aql_dispatch {
    u16 header, dimensions, workgroup[3], reserved0;
    u32 grid[3]; /* work-items, not work-groups */
    u32 scratch_nbytes, lds_nbytes;
    u64 kernel, kernarg, reserved1, signal;
};
struct aql_barrier_and {
    u16 header, reserved0;
    u32 reserved1;
    u64 dependencies[5], reserved2, signal;
};
union aql_packet {
    struct aql_dispatch dispatch;
    struct aql_barrier_and barrier;
};
#define AQL_FENCES (2 << 9 | 2 << 11) /* acquire and release at system scope */
#define AQL_IN_ORDER (1 << 8)         /* starts when the packets before it are complete */
#define AQL_DISPATCH (2 | AQL_IN_ORDER | AQL_FENCES)
#define AQL_BARRIER_AND (3 | AQL_IN_ORDER | AQL_FENCES)

struct signal {
    long kind;
    volatile long value; /* a completed packet subtracts 1 */
    u64 mailbox;         /* gem5: not 0 says that the driver's event is raised too */
    u32 event_id, reserved0;
    u64 start, end, queue;
    u32 reserved1[2];
};
struct queue {
    u64 unused[16];
    u64 read_index;        /* written by the GPU */
    u32 read_index_offset; /* of the field above; the GPU finds the structure by it */
    u32 unused1[29];
};

_Static_assert(sizeof(struct kfd_create_queue) == 88, "as in kfd_ioctl.h");
_Static_assert(sizeof(struct kfd_create_event) == 32, "as in kfd_ioctl.h");
_Static_assert(sizeof(struct kfd_event_data) == 48, "as in kfd_ioctl.h");
_Static_assert(sizeof(struct kfd_wait_events) == 24, "as in kfd_ioctl.h");
_Static_assert(sizeof(union aql_packet) == 64, "as in the HSA specification");
_Static_assert(sizeof(struct signal) == 64, "as in amd_hsa_signal.h");
_Static_assert(__builtin_offsetof(struct queue, read_index_offset) == 136, "as in amd_hsa_queue.h");

#define RING_PACKETS 64
#define PAGE_NBYTES 4096ul
#define CODE_NBYTES ((sizeof code + PAGE_NBYTES - 1) / PAGE_NBYTES * PAGE_NBYTES)

/* An hour of simulated time. When a kernel hangs and nothing else is left to simulate, gem5
 * skips to this moment at once. */
#define TIMEOUT_MS 3600000
/* The event may come before the signal's value does, by the time of one DMA write: well below
 * this. */
#define MAX_POLLS 100000

/* A queue, and the signal of what runs in it. */
static struct line {
    union aql_packet ring[RING_PACKETS] __attribute__((aligned(4096)));
    struct queue queue __attribute__((aligned(256)));
    struct signal done __attribute__((aligned(64)));
    volatile void *doorbell;
    u64 packets; /* written to the ring so far */
} lines[QUEUES] = {
    [0 ... QUEUES - 1] = {
        .queue = { .read_index_offset = __builtin_offsetof(struct queue, read_index) },
        .done = { .kind = 1, .mailbox = 1 },
    },
};
static struct kfd_event_data event; /* of all signals */
static struct kfd_wait_events wait = {
    .events = (u64)&event, .count = 1, .timeout_ms = TIMEOUT_MS
};

static long data, output, kfd;
static u8 *arena;
static const u8 *kernel_code; /* where the GPU finds `code` */
static u8 *kernarg;           /* LAUNCHES areas of KERNARG_NBYTES */

static union {
    struct data_header header;
    u8 bytes[sizeof(struct data_header) + (INPUTS + 1) * sizeof(struct data_entry)];
} head;
static char temporary[4096]; /* name of the output file until it is complete */

/* ---- Files ---- */

static void open_data(const char *path)
{
    data = sys(SYS_OPEN, (long)path, 0 /* O_RDONLY */, 0, 0, 0, 0);
    if (data < 0)
        stop(EXIT_NO_DATA, path, "cannot be opened; name the bundle's data.h5");
    u64 nbytes = (u64)sys(SYS_LSEEK, data, 0, 2 /* SEEK_END */, 0, 0, 0);
    if (nbytes < sizeof head || !read_all(data, &head, sizeof head, 0))
        stop(EXIT_DATA_SIZE, path, "is shorter than its header; build the bundle again");

    const u64 *words = (const u64 *)&head, *id = (const u64 *)data_id;
    if (words[0] != *(const u64 *)"simgenD1")
        stop(EXIT_DATA_SIZE, path, "is not a data file of simgen; name the bundle's data.h5");
    if (words[1] != id[0] || words[2] != id[1] || words[3] != id[2] || words[4] != id[3])
        stop(EXIT_DATA_ID, path, "holds other tensors or another seed; build the bundle again");
    if (head.header.file_nbytes != nbytes)
        stop(EXIT_DATA_SIZE, path, "is truncated or too long; build the bundle again");
    if (head.header.count != INPUTS + 1)
        stop(EXIT_DATA_SIZE, path, "has another number of tensors; build the bundle again");
}

/* The repeated string instructions count once, however long the name is. */
static void open_output(const char *path)
{
    u64 left = sizeof temporary - sizeof ".part";
    const char *at = path;
    __asm__ volatile("repne scasb" : "+D"(at), "+c"(left) : "a"(0) : "cc", "memory");
    u64 n = (u64)(at - path) - 1;
    if (!left)
        stop(EXIT_USAGE, "OUTPUTS", "the path is too long; name a shorter one");
    memcpy(temporary, path, n);
    memcpy(temporary + n, ".part", sizeof ".part");
    output = sys(
        SYS_OPEN, (long)temporary, 01 | 0100 | 01000 /* O_WRONLY O_CREAT O_TRUNC */, 0644, 0, 0, 0);
    if (output < 0)
        stop(EXIT_NO_OUTPUT, temporary, "cannot be made; check the folder and its permissions");
}

static void write_output(const char *path)
{
    if (!write_all(output, arena + OUTPUTS_OFFSET, ARENA_NBYTES - OUTPUTS_OFFSET))
        stop(EXIT_NO_OUTPUT, temporary, "cannot be written; check the space on the disk");
    if (sys(SYS_RENAME, (long)temporary, (long)path, 0, 0, 0, 0) < 0)
        stop(EXIT_NO_OUTPUT, path, "cannot be replaced; check the folder and its permissions");
}

/* Reads entry `index` of the data file, or the last `nbytes` of it, to `to`. */
static void read_entry(const char *path, u64 index, u8 *to, u64 nbytes)
{
    const struct data_entry *entry = &head.header.entry[index];
    if (nbytes > entry->nbytes || entry->offset + entry->nbytes > head.header.file_nbytes)
        stop(EXIT_DATA_SIZE, path, "has a tensor of another size; build the bundle again");
    if (!read_all(data, to, nbytes, entry->offset + entry->nbytes - nbytes))
        stop(EXIT_NO_DATA, path, "cannot be read; check the disk");
}

/* Inputs get their values. Of an output, the end and the guard behind it get the canary, so that an
 * output that no kernel wrote and a write past its end both show: one read each, of a pattern that
 * ends where the guard ends. */
static void load(const char *path)
{
    const u64 most = head.header.entry[INPUTS].nbytes - GUARD_NBYTES;
    for (u64 i = 0; i < INPUTS; i++) {
        if (head.header.entry[i].nbytes != inputs[i].nbytes)
            stop(EXIT_DATA_SIZE, inputs[i].name,
                "has another size in the data file; build the bundle again");
        read_entry(path, i, arena + inputs[i].offset, inputs[i].nbytes);
    }
    for (u64 i = 0; i < OUTPUTS; i++) {
        u64 fill = outputs[i].nbytes < most ? outputs[i].nbytes : most;
        u8 *end = arena + outputs[i].offset + outputs[i].nbytes;
        read_entry(path, INPUTS, end - fill, fill + GUARD_NBYTES);
    }
}

/* ---- The GPU ---- */

#define KNOWN "; run it on a version of gem5 that simgen knows"

static void driver(unsigned request, void *argument, const char *refused)
{
    if (sys(SYS_IOCTL, kfd, request, (long)argument, 0, 0, 0) < 0)
        stop(EXIT_QUEUE, "/dev/kfd", refused);
}

static void open_driver(void)
{
    kfd = sys(SYS_OPEN, (long)"/dev/kfd", 2 /* O_RDWR */, 0, 0, 0, 0);
    if (kfd < 0)
        stop(
            EXIT_NO_DRIVER, "/dev/kfd", "there is none; this program runs on gem5, through run.sh");
}

#if DISCRETE
extern const u8 __ehdr_start[]; /* where the program file's first byte lies in memory */

/* A discrete GPU may touch only memory that the driver has allocated for it: the arena, and behind
 * it the code and the kernel arguments. The driver maps new pages, so nobody may have touched the
 * range before. The code comes from the program file with one system call. */
static void allocate(const char *program)
{
    const u64 nbytes = ARENA_NBYTES + PRIVATE_NBYTES + CODE_NBYTES + LAUNCHES * KERNARG_NBYTES;
    const u64 whole = (nbytes + PAGE_NBYTES - 1) / PAGE_NBYTES * PAGE_NBYTES;
    arena = (u8 *)sys(SYS_MMAP, 0, (long)whole, 3, 0x22 /* MAP_PRIVATE MAP_ANONYMOUS */, -1, 0);
    if ((long)arena < 0)
        stop(EXIT_NO_MEMORY, "arena", "no memory for the tensors; give gem5 a larger --mem-size");
    struct kfd_alloc_memory memory = {
        .address = (u64)arena, .nbytes = whole, .gpu_id = GPU_ID,
        .flags = KFD_MEMORY_GTT | KFD_MEMORY_EXECUTABLE | KFD_MEMORY_WRITABLE,
    };
    driver(KFD_ALLOC_MEMORY_OF_GPU, &memory, "does not allocate memory of the GPU" KNOWN);
    kernel_code = arena + ARENA_NBYTES + PRIVATE_NBYTES;
    kernarg = arena + ARENA_NBYTES + PRIVATE_NBYTES + CODE_NBYTES;
    long file = sys(SYS_OPEN, (long)program, 0, 0, 0, 0, 0);
    if (file < 0
        || !read_all(
            file, arena + ARENA_NBYTES + PRIVATE_NBYTES, sizeof code, (u64)(code - __ehdr_start)))
        stop(EXIT_NO_DATA, program, "cannot be read by the program in it; check its permissions");
}
#else
static u8 kernarg_space[LAUNCHES * KERNARG_NBYTES] __attribute__((aligned(64)));

/* An APU shares the page table of the CPU: it may touch whatever the program may. */
static void allocate(const char *program)
{
    (void)program;
    arena = (u8 *)sys(SYS_MMAP, 0, (long)(ARENA_NBYTES + PRIVATE_NBYTES), 3,
                      0x22 /* MAP_PRIVATE MAP_ANONYMOUS */, -1, 0);
    if ((long)arena < 0)
        stop(EXIT_NO_MEMORY, "arena", "no memory for the tensors; give gem5 a larger --mem-size");
    kernel_code = code;
    kernarg = kernarg_space;
}
#endif

static void make_event(void)
{
    struct kfd_create_event created = { .auto_reset = 1 };
    driver(KFD_CREATE_EVENT, &created, "does not create an event" KNOWN);
    event.event_id = created.event_id;
}

static void make_queue(struct line *line)
{
    line->done.event_id = event.event_id;
    struct kfd_create_queue wanted = {
        .ring_base = (u64)line->ring, .ring_nbytes = RING_HALVES * sizeof line->ring,
        .gpu_id = GPU_ID,
        .type = KFD_QUEUE_TYPE_AQL, .percentage = 100, .priority = 7,
        .read_pointer = (u64)&line->queue.read_index, .write_pointer = (u64)&line->queue.unused[7],
    };
    driver(KFD_CREATE_QUEUE, &wanted, "does not create the AQL queue" KNOWN);
    const u64 in_page = wanted.doorbell_offset % PAGE_NBYTES;
    long page = sys(SYS_MMAP, 0, PAGE_NBYTES, 3, 1 /* MAP_SHARED */, kfd,
                    (long)(wanted.doorbell_offset - in_page));
    if (page < 0)
        stop(EXIT_QUEUE, "/dev/kfd", "does not map the doorbell" KNOWN);
    line->doorbell = (u8 *)page + in_page;
}

/* Makes the packet that was just written visible and tells the GPU of it. gem5 fetches one packet
 * for each ring of the bell, the one before the new write index. */
static void submit(struct line *line, u16 *header, u16 type)
{
    /* The GPU reads objects that no C code reads: without this the stores to them may be
     * dropped. */
    __asm__ volatile("" : : "r"(line), "r"(kernarg) : "memory");
    __atomic_store_n(header, type, __ATOMIC_RELEASE);
    line->packets++;
#if DOORBELL_NBYTES == 8
    *(volatile u64 *)line->doorbell = line->packets - 1; /* 64 bits, index of the last packet */
#else
    *(volatile u32 *)line->doorbell = (u32)line->packets; /* 32 bits, number of packets */
#endif
}

__attribute__((noreturn, cold)) static void time_out(u64 index)
{
    say("simgen: error: launch ");
    say_number(index);
    say(" (");
    say(kernels[launches[index].kernel].name);
    say("): not finished after ");
    say_number(TIMEOUT_MS);
    say(" ms of simulated time; find out whether "
        "it is the kernel with: simgen build --target host --sanitize\n");
    quit(EXIT_TIMEOUT);
}

/* Two packets. The dispatch has no completion signal, because gem5 takes a dispatch that has one
 * for a copy kernel of the ROCm runtime ("blit"), which its scripts neither count nor can skip.
 * The barrier behind it completes when the kernel has, and its signal raises the event that
 * wakes this CPU. */
static void begin_launch(struct line *line, u64 index)
{
    const struct launch *launch = &launches[index];
    const struct kernel *kernel = &kernels[launch->kernel];
    /* An area of its own for each launch: no cache can hold an old copy. */
    u64 *arguments = (u64 *)(kernarg + index * KERNARG_NBYTES);
#if SIMGEN_OWN
    put_arguments((u8 *)arguments, index, (u64)arena);
#else
    for (u32 i = 0; i < launch->args; i++)
        arguments[i] = (u64)(arena + launch->arg[i]);
#endif

    struct aql_dispatch *packet = &line->ring[line->packets % RING_PACKETS].dispatch;
    packet->dimensions = 3;
    for (u32 i = 0; i < 3; i++) {
        packet->workgroup[i] = kernel->group[i];
        packet->grid[i] = launch->grid[i] * kernel->group[i];
    }
    packet->lds_nbytes = kernel->lds_nbytes;
    packet->kernel = (u64)(kernel_code + kernel->descriptor);
    packet->kernarg = (u64)arguments;
    submit(line, &packet->header, AQL_DISPATCH);

    struct aql_barrier_and *barrier = &line->ring[line->packets % RING_PACKETS].barrier;
    line->done.value = 1;
    barrier->signal = (u64)&line->done;
    submit(line, &barrier->header, AQL_BARRIER_AND);
}

/* Sleeping keeps the CPU out of the caches and the statistics of the kernel. */
static void run_launch(u64 index)
{
    begin_launch(lines, index);
    /* Wait once: the event comes once. It may come before the signal's value, so poll that. */
    driver(KFD_WAIT_EVENTS, &wait, "does not wait for the event" KNOWN);
    for (u32 polls = 0; lines->done.value > 0; polls++)
        if (polls == MAX_POLLS)
            time_out(index);
}

#if MARKS_STEPS
/* gem5's m5_work_begin (0x5a) and m5_work_end (0x5b): apu_se.py dumps and resets the statistics at
 * both. Their result is written to RAX. An illegal instruction on hardware. */
#define M5_WORK(function, item)                                                                    \
    __asm__ volatile(".byte 0x0f, 0x04, " #function ", 0x00"                                       \
        :                                                                                          \
        : "D"((u64)(item)), "S"(0ul)                                                               \
        : "rax", "memory")

#endif
#if DUMPS
/* m5_dump_reset_stats (0x42), now and once: this gem5's apu_se.py does not do it when a kernel
 * ends. Its result is written to RAX. An illegal instruction on hardware. */
#define M5_DUMP_RESET_STATS() \
    __asm__ volatile(".byte 0x0f, 0x04, 0x42, 0x00" : : "D"(0ul), "S"(0ul) : "rax", "memory")

#endif
static void run_all(const char *state)
{
    (void)state;
    for (u64 i = 0; i < LAUNCHES; i++) {
#if SIMGEN_KEEPS
        if (state_head.mark[launches[i].step] != TO_RUN)
            continue;
#endif
#if MARKS_STEPS
        if (i == 0 || launches[i].step != launches[i - 1].step)
            M5_WORK(0x5a, launches[i].step);
#endif
        run_launch(i);
#if DUMPS
        M5_DUMP_RESET_STATS();
#endif
#if MARKS_STEPS
        if (i + 1 == LAUNCHES || launches[i].step != launches[i + 1].step)
            M5_WORK(0x5b, launches[i].step);
#endif
#if SIMGEN_KEEPS
        if (i + 1 == LAUNCHES || launches[i].step != launches[i + 1].step)
            leave(state, arena, launches[i].step);
#endif
    }
}

#if QUEUES > 1
#include "gem5_queues.h"

#endif
#if SIMGEN_KEEPS
#define STATE_WORD " [STATE]"
#else
#define STATE_WORD ""
#endif

/* All files are checked before the first cycle of the GPU: a wrong path must not cost hours. */
__attribute__((noreturn, used)) static void start(const u64 *stack)
{
    const char *const *argv = (const char *const *)(stack + 1);
    if (stack[0] != 3 && !(SIMGEN_KEEPS && stack[0] == 4))
        stop(EXIT_USAGE, "arguments",
             "not as many as it takes; write BINARY DATA OUTPUTS" STATE_WORD);
    open_data(argv[1]);
    open_output(argv[2]);
#if SIMGEN_KEEPS
    const int resumed = stack[0] == 4 && open_state(argv[3]);
#endif
    open_driver();
    allocate(argv[0]);
#if RELOCATED
    for (u32 at = 0; at < sizeof relocated / sizeof *relocated; at++)
        *(u64 *)(u64)(kernel_code + relocated[at]) += (u64)kernel_code;
#endif
    load(argv[1]);
#if SIMGEN_KEEPS
    if (resumed)
        load_state(argv[3], arena);
#endif
    make_event();
#if QUEUES > 1
    for (u32 i = 0; i < QUEUES; i++)
        make_queue(&lines[i]);
#if SIMGEN_KEEPS
    if (stack[0] == 4)
        run_all(argv[3]);
    else
        run_queues();
#else
    run_queues();
#endif
#else
    make_queue(lines);
    run_all(argv[3]);
#endif
    write_output(argv[2]);
    quit(EXIT_DONE);
}

__attribute__((naked, noreturn)) void _start(void)
{
    __asm__("mov %rsp, %rdi\n\tand $-16, %rsp\n\tcall start");
}
