/* One kernel text for every machine: what plain CUDA/HIP C++ needs to compile with clang for AMD
 * GPUs, with NVIDIA's compilers, and as C++ for this CPU.
 *
 * Multiply-adds are fused only where a kernel calls fused(), and nowhere else (-ffp-contract=off,
 * --fmad=false), so that all machines round in the same places. There is no division: gem5 gets
 * IEEE float32 division wrong at the edges, and fast_rcp() is one instruction on every GPU. */
#ifndef SIMGEN_PRELUDE_H
#define SIMGEN_PRELUDE_H

#if defined(__AMDGCN__)
#include "amdgcn.h"
#elif defined(__CUDACC__) || defined(__CUDACC_RTC__)
#include "cuda.h"
#else
#include "host.h"
#endif

#include "common.h"

#endif
