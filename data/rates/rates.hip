// Kernels whose time grows with a count: two launches with different counts tell a rate, without
// what a launch costs. `simgen rates` sets the counts in rates.toml.

// One wavefront follows addresses: each load waits for the one before. All lanes load one word;
// the compiler does not know that, and so takes no scalar loads.
extern "C" __global__ void chase(const int* x, int* places, int slot, int first, int mask, int steps)
{
  int at = threadIdx.x >> 6;
#pragma unroll 1
  for (int i = 0; i < steps; ++i) at = (at + x[first + at]) & mask;
  if (threadIdx.x == 0) places[slot] = at;
}

// All work-items read 16 bytes each, over and over. A work-group's run of words is its own if
// `home` is not 0, and it begins at a place of its own in the run if `begin` is not.
extern "C" __global__ void stream(
    const int4* x, int* sums, int first, int home, int begin, int mask, int rounds)
{
  const int4* run = x + first + blockIdx.x * home;
  int at = blockIdx.x * begin + threadIdx.x, sum = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < rounds; ++i) {
    int4 held[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) held[k] = run[(at + k * 256) & mask];
#pragma unroll
    for (int k = 0; k < 4; ++k) sum += held[k].x + held[k].w;
    at += 4 * 256;
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] += sum;
}

// 32 multiply-adds a round, each of which waits for the one before: none can be packed with another.
extern "C" __global__ void multiply_add(float* made, float factor, int rounds)
{
  int item = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < rounds; ++i) {
#pragma unroll
    for (int k = 0; k < 32; ++k) sum = sum * factor + 1.0f;
  }
  made[item] += sum + item;
}

// One work-group reads words of LDS, `stride` words apart in a wavefront; 16 loads a round.
extern "C" __global__ void lds(int* held, int stride, int rounds)
{
  __shared__ int words[4096];
  for (int i = threadIdx.x; i < 4096; i += blockDim.x) words[i] = i;
  __syncthreads();
  int at = threadIdx.x * stride, sum = 0;
#pragma unroll 1
  for (int i = 0; i < rounds; ++i) {
#pragma unroll
    for (int k = 0; k < 16; ++k) sum += words[(at + k * 256) & 4095];
    at += 64;
  }
  held[threadIdx.x] += sum;
}

// One wavefront follows addresses in LDS.
extern "C" __global__ void lds_chase(int* places, int slot, int steps)
{
  __shared__ int next[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) next[i] = (i + 33) & 1023;
  __syncthreads();
  int at = threadIdx.x >> 6;
#pragma unroll 1
  for (int i = 0; i < steps; ++i) at = next[at];
  if (threadIdx.x == 0) places[slot] = at;
}

extern "C" __global__ void nothing(int* places, int slot)
{
  if (threadIdx.x == 0) places[slot] = slot;
}
