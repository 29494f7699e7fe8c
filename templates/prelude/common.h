/* The same on every machine. */

/* |x| by the sign bit: a modifier on a compare instruction would be ignored by gem5. */
static __device__ __forceinline__ float absolute(float x) { return as_float(as_uint(x) & 0x7fffffffu); }
