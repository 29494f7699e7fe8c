#include "prelude.h"
#define ITEMS 512
#define BLOCK 256
#define AT (blockIdx.x * BLOCK + threadIdx.x)
#define KERNEL(name, ...) extern "C" __global__ __launch_bounds__(BLOCK) void name(__VA_ARGS__)
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned long long ulong64;
typedef _Float16 half;
