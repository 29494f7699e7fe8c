/* What the HIP launcher calls, without ROCm's headers and without linking to its library, so
 * that the program is compiled on a machine without ROCm and runs with any version of it.
 *
 * From hip/hip_runtime_api.h; the same in all versions from ROCm 4.0 on. Where
 * __HIP_PLATFORM_AMD__ is defined (hipcc does), that header is used, and the library is linked. */
#ifndef SIMGEN_HIP_API_H
#define SIMGEN_HIP_API_H
#include "system.h"

#ifdef __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#else
typedef enum {
    hipSuccess = 0,
    hipErrorOutOfMemory = 2,
    hipErrorNoDevice = 100,
    hipErrorInvalidImage = 200,
    hipErrorNoBinaryForGpu = 209,
    hipErrorSharedObjectInitFailed = 303,
} hipError_t;
typedef enum { hipMemcpyHostToDevice = 1, hipMemcpyDeviceToHost = 2 } hipMemcpyKind;
typedef struct ihipModule_t *hipModule_t;
typedef struct ihipModuleSymbol_t *hipFunction_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef void *hipDeviceptr_t;
typedef int hipDevice_t;
#define HIP_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x01)
#define HIP_LAUNCH_PARAM_BUFFER_SIZE ((void *)0x02)
#define HIP_LAUNCH_PARAM_END ((void *)0x03)
#endif

/* Result, name, parameters. */
#define HIP_FUNCTIONS(DO)                                                                          \
    DO(const char *, hipGetErrorName, (hipError_t error))                                          \
    DO(const char *, hipGetErrorString, (hipError_t error))                                        \
    DO(hipError_t, hipGetDeviceCount, (int *count))                                                \
    DO(hipError_t, hipDeviceGetName, (char *name, int nbytes, hipDevice_t device))                 \
    DO(hipError_t, hipRuntimeGetVersion, (int *version))                                           \
    DO(hipError_t, hipMalloc, (void **memory, size_t nbytes))                                      \
    DO(hipError_t, hipHostMalloc, (void **memory, size_t nbytes, unsigned flags))                  \
    DO(hipError_t, hipMemcpy, (void *to, const void *from, size_t nbytes, hipMemcpyKind kind))     \
    DO(hipError_t, hipMemsetD32, (hipDeviceptr_t to, int value, size_t count))                     \
    DO(hipError_t, hipModuleLoadData, (hipModule_t * module, const void *code_object))             \
    DO(hipError_t, hipModuleGetFunction,                                                           \
        (hipFunction_t * function, hipModule_t module, const char *name))                          \
    DO(hipError_t, hipModuleLaunchKernel,                                                          \
        (hipFunction_t function, unsigned groups_x, unsigned groups_y, unsigned groups_z,          \
            unsigned items_x, unsigned items_y, unsigned items_z, unsigned lds_nbytes,             \
            hipStream_t stream, void **parameters, void **extra))                                  \
    DO(hipError_t, hipDeviceSynchronize, (void))                                                   \
    DO(hipError_t, hipEventCreate, (hipEvent_t * event))                                           \
    DO(hipError_t, hipEventRecord, (hipEvent_t event, hipStream_t stream))                         \
    DO(hipError_t, hipEventElapsedTime, (float *milliseconds, hipEvent_t start, hipEvent_t stop))

#ifdef __HIP_PLATFORM_AMD__
#define DECLARE(result, name, parameters) result name parameters;
/* The same twice: the compiler compares what stands here with the header. */
HIP_FUNCTIONS(DECLARE)
#undef DECLARE

static inline void open_hip(void)
{
}
#else
typedef u64 size_t;

#define DECLARE(result, name, parameters) static result(*name) parameters;
HIP_FUNCTIONS(DECLARE)
#undef DECLARE

/* Of the C library. */
void *dlopen(const char *name, int flags);
void *dlsym(void *library, const char *name);
const char *dlerror(void);

static inline void *hip_function(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found)
        stop(EXIT_NO_DRIVER, name,
            "is not in this machine's libamdhip64; install ROCm 4.0 or later");
    return found;
}

static inline void open_hip(void)
{
    static const char *const names[] = {
        "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so.4",
        "libamdhip64.so", /* LIBRARY_NAMES of hip_program.py */
    };
    void *library = 0;
    for (u32 i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], 2 /* RTLD_NOW */);
    if (!library) {
        say(dlerror());
        say("\n");
        stop(EXIT_NO_DRIVER, "libamdhip64.so",
             "cannot be loaded; install ROCm, or name its folder in LD_LIBRARY_PATH");
    }
#define FIND(result, name, parameters) name = (result(*) parameters)hip_function(library, #name);
    HIP_FUNCTIONS(FIND)
#undef FIND
}
#endif

#endif
