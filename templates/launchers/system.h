/* What a launcher needs of an operating system, without a C library: Linux system calls on x86-64,
 * messages, and the data file. Valid as C and as C++.
 *
 * No C library, because one from a current distribution does not even start on gem5 ("CPU ISA
 * level is lower than required"), and because its start-up would be simulated instruction by
 * instruction. */
#ifndef SIMGEN_SYSTEM_H
#define SIMGEN_SYSTEM_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;

/* Exit codes. The first digit is simgen's own code for the class of error. */
enum {
    EXIT_DONE = 0,
    EXIT_USAGE = 20,        /* wrong arguments */
    EXIT_NO_DRIVER = 30,    /* no /dev/kfd */
    EXIT_NO_DATA = 31,      /* the data file cannot be opened or read */
    EXIT_NO_OUTPUT = 32,    /* the output file cannot be made or written */
    EXIT_NO_MEMORY = 33,
    EXIT_NO_CPU = 34,       /* the CPU lacks instructions that the program was compiled for */
    EXIT_QUEUE = 50,        /* the driver refused the queue or the event */
    EXIT_TIMEOUT = 51,      /* a kernel did not finish */
    EXIT_KERNEL = 52,       /* a kernel did what it must not do */
    EXIT_DATA_SIZE = 70,    /* the data file is truncated or not for this workload */
    EXIT_DATA_ID = 71,      /* the data file holds other tensors or another seed */
};

enum {
    SYS_READ = 0, SYS_WRITE = 1, SYS_OPEN = 2, SYS_CLOSE = 3, SYS_LSEEK = 8, SYS_MMAP = 9,
    SYS_MPROTECT = 10, SYS_IOCTL = 16, SYS_PREAD = 17, SYS_FORK = 57, SYS_EXIT = 60, SYS_WAIT4 = 61,
    SYS_KILL = 62, SYS_RENAME = 82, SYS_CLOCK_GETTIME = 228, SYS_EXIT_GROUP = 231,
};

static inline long sys(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* Clang may turn loops into calls of these, also without a C library. */
#ifdef __cplusplus
extern "C" {
#endif
__attribute__((weak)) void *memset(void *to, int value, u64 n)
{
    void *start = to;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(value) : "memory");
    return start;
}
__attribute__((weak)) void *memcpy(void *to, const void *from, u64 n)
{
    void *start = to;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    return start;
}
#ifdef __cplusplus
}
#endif

static inline void say(const char *text)
{
    u64 n = 0;
    while (text[n])
        n++;
    sys(SYS_WRITE, 2, (long)text, (long)n, 0, 0, 0);
}

static inline void say_number(u64 value)
{
    char text[21];
    int at = sizeof text - 1;
    text[at] = 0;
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    say(text + at);
}

__attribute__((noreturn)) static inline void quit(int code)
{
    for (;;)
        sys(SYS_EXIT_GROUP, code, 0, 0, 0, 0, 0);
}

/* One line on stderr: "simgen: error: PLACE: FACT". */
__attribute__((noreturn, cold)) static inline void stop(
    int code, const char *place, const char *fact)
{
    say("simgen: error: ");
    say(place);
    say(": ");
    say(fact);
    say("\n");
    quit(code);
}

/* The first bytes of data.h5, in what HDF5 calls the user block: where each dataset lies, so that
 * nothing here parses HDF5. Entries are in the order of the workload's inputs; one more at the end
 * is the canary pattern. */
struct data_entry {
    u64 offset, nbytes; /* from the start of the file */
};
struct data_header {
    char magic[8]; /* "simgenD1" */
    u8 id[32];     /* SHA-256 of what the file was made from: tensors, distributions, seed */
    u64 file_nbytes;
    u64 count; /* entries */
    struct data_entry entry[];
};

/* Reads [offset, offset + nbytes) of a file to `to`; Linux moves at most 2 GiB at a time. */
static inline int read_all(long fd, void *to, u64 nbytes, u64 offset)
{
    u8 *at = (u8 *)to;
    while (nbytes) {
        u64 part = nbytes < 0x7ffff000 ? nbytes : 0x7ffff000;
        long got = sys(SYS_PREAD, fd, (long)at, (long)part, (long)offset, 0, 0);
        if (got <= 0)
            return 0;
        at += got;
        offset += (u64)got;
        nbytes -= (u64)got;
    }
    return 1;
}

static inline int write_all(long fd, const void *from, u64 nbytes)
{
    const u8 *at = (const u8 *)from;
    while (nbytes) {
        u64 part = nbytes < 0x7ffff000 ? nbytes : 0x7ffff000;
        long put = sys(SYS_WRITE, fd, (long)at, (long)part, 0, 0, 0);
        if (put <= 0)
            return 0;
        at += put;
        nbytes -= (u64)put;
    }
    return 1;
}

#endif
