/* A libamdhip64 that does on the CPU what the kernel of swaps.py does, so that the HIP program can be
 * run whole on a machine without an AMD GPU. FAIL_IN names a function that fails, with ERROR. */
#include "system.h"

#ifndef FAIL_IN
#define FAIL_IN none
#endif
#ifndef ERROR
#define ERROR 719
#endif
#define STRING_(a) #a
#define STRING(a) STRING_(a)

static int fails(const char *name)
{
    const char *wanted = STRING(FAIL_IN);
    for (; *wanted && *wanted == *name; wanted++)
        name++;
    return *wanted == *name ? ERROR : 0;
}
#define TRY(name)        \
    if (fails(name))     \
        return fails(name)

static void *memory(u64 nbytes)
{
    return (void *)sys(SYS_MMAP, 0, (long)nbytes, 3, 0x22, -1, 0);
}

const char *hipGetErrorName(int error) { return error == 100 ? "hipErrorNoDevice" : "hipErrorFake"; }
const char *hipGetErrorString(int error) { return error == 100 ? "no ROCm-capable device" : "fake"; }
int hipGetDeviceCount(int *count) { TRY("hipGetDeviceCount"); return *count = 1, 0; }
int hipDeviceGetName(char *name, int nbytes, int device)
{
    (void)nbytes, (void)device;
    memcpy(name, "Fake GPU", 9);
    return 0;
}
int hipRuntimeGetVersion(int *version) { return *version = VERSION, 0; }
int hipMalloc(void **to, u64 nbytes) { TRY("hipMalloc"); return *to = memory(nbytes), 0; }
int hipHostMalloc(void **to, u64 nbytes, unsigned flags)
{
    TRY("hipHostMalloc");
    (void)flags;
    return *to = memory(nbytes), 0;
}
int hipMemcpy(void *to, const void *from, u64 nbytes, int kind)
{
    TRY("hipMemcpy");
    if (kind != 1 && kind != 2)
        return 1;
    memcpy(to, from, nbytes);
    return 0;
}
int hipMemsetD32(void *to, int value, u64 count)
{
    TRY("hipMemsetD32");
    for (u64 i = 0; i < count; i++)
        ((int *)to)[i] = value;
    return 0;
}
int hipModuleLoadData(void **module, const void *image)
{
    TRY("hipModuleLoadData");
    const u8 *elf = (const u8 *)image;
    /* Version 3 of a code object (1 here) is the newest for ROCm 4.0, and FLAGS what it wants. */
    if (*(const u32 *)elf != 0x464c457f || elf[8] != (VERSION < 10000000 ? 1 : 2))
        return 209;
    if (VERSION < 10000000 && *(const u32 *)(elf + 48) != FLAGS)
        return 209;
    *module = (void *)image;
    return 0;
}
int hipModuleGetFunction(void **function, void *module, const char *name)
{
    (void)module;
    *function = (void *)"swap";
    return *(const u32 *)name == *(const u32 *)"swap" ? 0 : 500;
}
int hipModuleLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned items,
                          unsigned b, unsigned c, unsigned lds, void *stream, void **parameters,
                          void **extra)
{
    TRY("hipModuleLaunchKernel");
    if (!function || y != 1 || z != 1 || b != 1 || c != 1 || lds || stream || parameters)
        return 1;
    if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != (void *)3)
        return 1;
    float **argument = (float **)extra[1];
    if (*(u64 *)extra[3] != 16)
        return 1;
    for (u64 i = 0; i < (u64)x * items; i++)
        argument[1][i] = argument[0][i ^ 1];
    return 0;
}
int hipDeviceSynchronize(void) { TRY("hipDeviceSynchronize"); return 0; }
int hipEventCreate(void **event) { return *event = memory(8), 0; }
int hipEventRecord(void *event, void *stream)
{
    static u64 now, step;
    (void)stream;
    *(u64 *)event = now += ++step % 5;
    return 0;
}
int hipEventElapsedTime(float *milliseconds, void *start, void *stop)
{
    return *milliseconds = (float)(*(u64 *)stop - *(u64 *)start) / 1000, 0;
}
