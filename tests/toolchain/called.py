"""Kernels of users that call functions: name -> (source, reference) of x and n."""

from __future__ import annotations

CALLED = {
    "inline": (  # in two functions, of which the kernel keeps values in registers
        """
__device__ __noinline__ float f(float a) { return a * 3.0f; }
__device__ __noinline__ float g(float a, float b) { return f(a) - f(b); }
__global__ void k(const float* x, float* y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float a = x[i], b = sqrtf(fabsf(a));
    y[i] = f(a) + g(b, a) + b;
}
""",
        "6 * x - 3 * x - 3 * x + 3 * x + 4 * np.sqrt(np.abs(x)) - 3 * x",
    ),
    "chosen": (
        """
__device__ __noinline__ float ident(float a) { return a; }
__device__ __noinline__ float relu(float a) { return a > 0.0f ? a : 0.0f; }
__device__ __noinline__ float twice(float a) { return 2 * a; }
__global__ void k(const float* x, float* y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float (*f)(float) = i % 3 == 0 ? &ident : i % 3 == 1 ? &relu : &twice;
    y[i] = f(x[i]);
}
""",
        "np.where(i % 3 == 0, x, np.where(i % 3 == 1, np.maximum(x, 0), 2 * x))",
    ),
    "table": (  # and one that nothing reads
        """
__device__ float ident(float a) { return a; }
__device__ float relu(float a) { return a > 0.0f ? a : 0.0f; }
__device__ float twice(float a) { return 2 * a; }
__device__ float (*table[])(float) = { &ident, &relu };
static __device__ float (*const others[])(float) = { &twice, &ident };
__global__ void other(float* y) { y[0] = others[blockIdx.x](y[1]); }
__global__ void k(const float* x, float* y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = table[i % 2](x[i]);
}
""",
        "np.where(i % 2, np.maximum(x, 0), x)",
    ),
    "passed": (
        """
__device__ __noinline__ float relu(float a) { return a > 0.0f ? a : 0.0f; }
__device__ __noinline__ float twice(float a) { return 2 * a; }
__device__ __noinline__ float both(float (*f)(float), float (*g)(float), float a)
{
    return f(a) + 8 * g(a);
}
__global__ void k(const float* x, float* y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = i % 2 ? both(&relu, &twice, x[i]) : both(&twice, &relu, x[i]);
}
""",
        "np.where(i % 2, np.maximum(x, 0) + 16 * x, 2 * x + 8 * np.maximum(x, 0))",
    ),
    "recursion": (
        """
__device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__global__ void k(const float* x, float* y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = fib(i % 10) + x[i] * 0;
}
""",
        "np.floor(1.618033988749895 ** (i % 10) / np.sqrt(5.0) + 0.5)",  # of Binet
    ),
}
TOML = """
source = "k.hip"
kernel = "k"
parameters = {{ n = 256 }}
inputs = {{ x = "f32[n]" }}
outputs = {{ y = "f32[n]" }}
args = ["x", "y"]
items = "n"
block = 64
[reference]
i = "np.arange(n)"
y = "{reference}"
"""
