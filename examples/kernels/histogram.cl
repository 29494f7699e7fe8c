// How often each byte occurs, counted in LDS and added up with atomics. OpenCL C.
__kernel void histogram(__global const uint* words, __global uint* bins, uint n, __local uint* own)
{
    for (uint bin = get_local_id(0); bin < 256; bin += get_local_size(0))
        own[bin] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_global_id(0); i < n; i += get_global_size(0)) {
        const uint word = words[i];
        for (uint shift = 0; shift < 32; shift += 8)
            atomic_inc(&own[word >> shift & 255]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint bin = get_local_id(0); bin < 256; bin += get_local_size(0))
        atomic_add(&bins[bin], own[bin]);
}
