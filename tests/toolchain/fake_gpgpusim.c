/* A libcudart.so that does on the CPU what the kernel of swaps.py does, and prints what GPGPU-Sim 4.2
 * prints (lines of a run with SM7_QV100), so that the launcher can be run whole without it. The
 * environment variable FAKE says what goes wrong. */
#include "system.h"

int printf(const char *, ...);
char *getenv(const char *);
void abort(void);
void exit(int);
int system(const char *);

static int is(const char *wanted)
{
    const char *fake = getenv("FAKE");
    while (fake && *wanted && *fake == *wanted)
        fake++, wanted++;
    return fake && !*fake && !*wanted;
}

static int functional(void) { return *getenv("PTX_SIM_MODE_FUNC") == '1'; }

void *context(void) __asm__("_Z13GPGPU_Contextv");
void *context(void) { return 0; }
void load_resources(void *, const char *, u32)
    __asm__("_ZN13gpgpu_context33gpgpu_ptx_info_load_from_filenameEPKcj");
void load_resources(void *context, const char *path, u32 sm)
{
    (void)context, (void)path;
    if (sm != 70 || system("$CUDA_INSTALL_PATH/bin/ptxas -v kernels.ptx --output-file /dev/null 2> kernels.ptxas && test -s kernels.ptxas"))
        exit(1);
}
int cuLinkAddFile_v2(void *state, int type, const char *path, u32 options, void *names, void *values)
{
    (void)state, (void)options, (void)names, (void)values;
    printf("\n\n        *** GPGPU-Sim Simulator Version 4.2.0  [build fake] ***\n\n\n"
           "GPGPU-Sim PTX: simulation mode %d (can change with PTX_SIM_MODE_FUNC environment variable:\n"
           "               1=functional simulation only, 0=detailed performance simulator)\n", functional());
    printf("-gpgpu_n_mem_per_ctrlr                    1 # number of memory chips per memory controller\n"
           "-gpgpu_dram_buswidth                   16 # default = 4 bytes (8 bytes per cycle at DDR)\n"
           "-gpgpu_dram_burst_length                    2 # Burst length of each DRAM request\n"
           "GPGPU-Sim uArch: clock freqs: 1132000000.000000:1132000000.000000:1132000000.000000:850000000.000000\n");
    if (is("syntax"))
        printf("./kernels.ptx:17 Syntax error:\n\n   fence.sc.gpu;\n   ^\n\n");
    return type != 1 || *path != 'k' || *getenv("PTX_JIT_PATH") != '.';
}
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
                            void *a, void *b, void *c, void *d, int *e)
{
    (void)host, (void)device, (void)name, (void)limit, (void)a, (void)b, (void)c, (void)d, (void)e;
    if (handle != (void **)1)
        abort();
}
int cudaMalloc(void **to, u64 nbytes)
{
    *to = (void *)sys(SYS_MMAP, 0, (long)nbytes, 3, 0x22, -1, 0);
    return 0;
}
int cudaMemcpy(void *to, const void *from, u64 nbytes, int kind)
{
    memcpy(to, from, nbytes);
    return kind != 1 && kind != 2;
}
int cuLaunchKernel(const char *kernel, u32 x, u32 y, u32 z, u32 items, u32 b, u32 c, u32 shared,
                   void *stream, void **arguments, void **extra)
{
    static u64 launch;
    if (y != 1 || z != 1 || b != 1 || c != 1 || shared || stream || extra || *kernel != 's')
        return 1;
    const float *from = *(const float **)arguments[0];
    float *to = *(float **)arguments[1];
    for (u64 i = 0; i < (u64)x * items; i++)
        to[i] = from[i ^ 1];
    launch++;
    if (is("deadlock")) {
        printf("\n\nGPGPU-Sim uArch: ERROR ** deadlock detected: last writeback core 3 @ gpu_sim_cycle 5102 "
               "(+ gpu_tot_sim_cycle 4294867296) (94898 cycles ago)\n");
        abort();
    }
    if (is("second") && launch == 2)
        abort();
    if (is("assert"))
        abort();
    if (is("exit"))
        exit(1);
    if (is("segment"))
        *(volatile int *)8 = 0;
    if (functional())
        return 0;
    printf("kernel_name = swap \nkernel_launch_uid = %d \ngpu_sim_cycle = %d\ngpu_sim_insn = 17288\n"
           "gpu_ipc =       3.1359\ngpu_tot_sim_cycle = 9999\ngpu_tot_issued_cta = %d\n", (int)launch,
           5660 + (int)launch, 16 * (int)launch);
    printf("\tL1D_cache_core[0]: Access = 64, Miss = 64, Miss_rate = 1.000, Pending_hits = 0\n"
           "\tL1D_total_cache_accesses = %d\n\tL1D_total_cache_misses = %d\n"
           "\tL1D_total_cache_miss_rate = 1.0000\n\tL1D_total_cache_pending_hits = %d\n",
           250 * (int)launch, 150 * (int)launch, 30 * (int)launch);
    printf("gpgpu_n_tot_thrd_icount = 17288\ngpgpu_n_tot_w_icount = %d\ntotal dram reads = %d\n"
           "total dram writes = %d\n", 576 * (int)launch, 3 * (int)launch, 2 * (int)launch);
    if (!is("silent"))
        printf("L2_total_cache_accesses = %d\nL2_total_cache_misses = %d\nL2_total_cache_miss_rate = 0\n"
               "L2_total_cache_pending_hits = 0\n", 250 * (int)launch, 10 * (int)launch);
    return 0;
}
int cudaDeviceSynchronize(void) { return 0; }
