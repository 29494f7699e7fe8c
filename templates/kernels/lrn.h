/* What the kernels of local response normalisation share. A work-item walks along the middle
 * axis of a tensor OUTER x AXIS x INNER, VECTOR elements wide, with the last WINDOW lines in
 * registers. */
#pragma once
#include "prelude.h"
#include "constants/lrn.h"
#include "access.h"

constexpr unsigned ITEMS = OUTER * INNER / VECTOR; /* work-items side by side */
constexpr bool ACROSS = LEFT + RIGHT > 0; /* windows extend along a line too */
constexpr unsigned SPAN = LEFT + RIGHT + 1; /* elements of a window in a line */
/* Elements of a line that a work-item reads: LEAD before its own, in loads of VECTOR. */
constexpr unsigned LEAD = (LEFT + VECTOR - 1) / VECTOR * VECTOR;
constexpr unsigned COLUMNS = LEAD + VECTOR + (RIGHT + VECTOR - 1) / VECTOR * VECTOR;
constexpr unsigned SHIFT = LEAD - LEFT; /* of the first window in them */

/* The line at `at` of the tensor that begins at `tensor`, from column `column` - LEAD on; zero
 * where there is nothing. What lies outside is masked, not left out, so that loads need not wait
 * for each other. */
template <class T>
static __device__ __forceinline__ void read_line(
    float* value, const T* tensor, int at, unsigned column)
{
    const bool inside = at >= 0 && at < AXIS;
    /* Not line 0: a choice between it and at is a clamped subtraction, and gem5 does not clamp. */
    const T* const line = tensor + (inside ? at : AXIS - 1) * INNER;
#pragma unroll
    for (unsigned c = 0; c < COLUMNS; c += VECTOR) {
        const unsigned from = column - LEAD + c;
        const bool there = c == LEAD || from < INNER;
        const unsigned mask = inside && there ? 0xffffffffu : 0;
        if constexpr (VECTOR == 4) {
            const float4 four = load4(line + (there ? from : column));
            value[c] = as_float(as_uint(four.x) & mask);
            value[c + 1] = as_float(as_uint(four.y) & mask);
            value[c + 2] = as_float(as_uint(four.z) & mask);
            value[c + 3] = as_float(as_uint(four.w) & mask);
        } else {
            value[c] = as_float(as_uint(load(line + (there ? from : column))) & mask);
        }
    }
}

template <class T>
static __device__ __forceinline__ void write(T* to, const float* value)
{
    if constexpr (VECTOR == 4) {
        const float4 four{value[0], value[1], value[2], value[3]};
        store4(to, four);
    } else {
        store(to, 0, value[0]);
    }
}

/* Takes a line into the registers: its elements, and what their squares add to windows. */
static __device__ __forceinline__ void enter(float* ring, float* sums, const float* value)
{
#pragma unroll
    for (unsigned v = 0; v < VECTOR; v++) {
        ring[v] = value[LEAD + v];
        if constexpr (ACROSS) {
            const float* const in = value + SHIFT + v;
            sums[v] = in[0] * in[0];
#pragma unroll
            for (unsigned s = 1; s < SPAN; s++)
                sums[v] = fused(in[s], in[s], sums[v]);
        }
    }
}

/* The squares of a window, from what was taken in. */
static __device__ __forceinline__ float energy(
    const float (&ring)[WINDOW][VECTOR], const float (&sums)[WINDOW][VECTOR], unsigned v)
{
    float total = ACROSS ? sums[0][v] : ring[0][v] * ring[0][v];
#pragma unroll
    for (int j = 1; j < WINDOW; j++)
        total = ACROSS ? total + sums[j][v] : fused(ring[j][v], ring[j][v], total);
    return total;
}
