/* The Fourier transform of a real tile of SIZE x SIZE pixels in a work-group. A kernel calls
 * spectrum_of() or tile_of(): all of its work-items must, and once, for it has barriers.
 *
 * SIZE / 2 work-items share a tile: threadIdx.x = item * LINES + line. Each has two rows of it,
 * 2 item and 2 item + 1, in re and in im, or a column of its spectrum, which is symmetric:
 * columns 1 to T / 2 - 1 say what those after T / 2 are, and so do halves of columns 0 and T /
 * 2, both of which item 0 has. For 0 < u < T / 2, column 0 is at u and column T / 2 at T - u; of
 * the real numbers at u = 0 and T / 2, re has column 0's and im the other one's. */
#pragma once
#include "prelude.h"
#include "constants/conv_fft.h"

constexpr unsigned T = SIZE;
constexpr unsigned HALF = T / 2; /* work-items of a tile; columns of its spectrum */
/* floats of a row in LDS: pairs of rows are LINES banks apart */
constexpr unsigned ROW = HALF * LINES + LINES / 2;
/* floats that real or imaginary parts of a work-group's tiles take there, one after the other */
constexpr unsigned TILE_LDS = T * ROW;
/* Of the spectrum of a real tile, where item 0's real numbers are complex ones with a partner of
 * 0: the second of each two, of rows 0 and T / 2, lies behind all others. */
constexpr unsigned SECOND = T * HALF;
constexpr unsigned PLACES = SECOND + 2;
constexpr float ROOT_HALF = 0.707106781f;
/* The inverse transform has a factor of T * T; two spectra that are multiplied have one of 2
 * each, and those of item 0 one of 4. */
constexpr float SCALE = 1.0f / (4 * T * T);

/* cos(2 pi k / T), k up to T / 2, for T of 16 and 32. */
static __device__ __forceinline__ float cosine(unsigned k)
{
    const unsigned quarter = k < T / 4 ? k : HALF - k;
    float value;
    if constexpr (T == 16)
        value = quarter == 1 ? 0.923879533f : quarter == 2 ? ROOT_HALF : 0.382683432f;
    else
        value = quarter == 1 ? 0.98078528f
            : quarter == 2   ? 0.923879533f
            : quarter == 3   ? 0.831469612f
            : quarter == 4   ? ROOT_HALF
            : quarter == 5   ? 0.555570233f
            : quarter == 6   ? 0.382683432f
                             : 0.195090322f;
    return k < T / 4 ? value : -value;
}

/* a and b become a + b and (a - b) exp(-2 pi i k / T), k < T / 2. */
static __device__ __forceinline__ void butterfly(
    float& a_re, float& a_im, float& b_re, float& b_im, unsigned k)
{
    const float x = a_re - b_re;
    const float y = a_im - b_im;
    const float turned = b_re - a_re;
    a_re += b_re;
    a_im += b_im;
    if (k == 0) {
        b_re = x;
        b_im = y;
    } else if (k == T / 4) {
        b_re = y;
        b_im = turned;
    } else if (k == T / 8) {
        b_re = (x + y) * ROOT_HALF;
        b_im = (y - x) * ROOT_HALF;
    } else if (T == 8 || k == 3 * T / 8) {
        b_re = (y - x) * ROOT_HALF;
        b_im = (x + y) * -ROOT_HALF;
    } else {
        const float sine = cosine(k < T / 4 ? T / 4 - k : k - T / 4);
        b_re = fused(x, cosine(k), y * sine);
        b_im = fused(y, cosine(k), x * -sine);
    }
}

template <unsigned SPAN>
static __device__ __forceinline__ void level(float (&re)[T], float (&im)[T])
{
#pragma unroll
    for (unsigned i = 0; i < HALF; i++) {
        const unsigned a = i / SPAN * (2 * SPAN) + i % SPAN;
        butterfly(re[a], im[a], re[a + SPAN], im[a + SPAN], i % SPAN * (HALF / SPAN));
    }
}

/* The bits of k, a number below T, in the other order. */
static __device__ __forceinline__ constexpr unsigned reversed(unsigned k)
{
    unsigned r = 0;
    for (unsigned bit = 1; bit < T; bit *= 2)
        r |= k & bit ? T / 2 / bit : 0;
    return r;
}

/* The transform of T complex numbers, not scaled. With re and im exchanged it is the inverse
 * one. */
static __device__ __forceinline__ void transform(float (&re)[T], float (&im)[T])
{
    if constexpr (T >= 32)
        level<16>(re, im);
    if constexpr (T >= 16)
        level<8>(re, im);
    level<4>(re, im);
    level<2>(re, im);
    level<1>(re, im);
    /* Frequencies are where their bits are reversed. */
#pragma unroll
    for (unsigned k = 0; k < T; k++) {
        const unsigned r = reversed(k);
        if (k < r) {
            const float x = re[k];
            const float y = im[k];
            re[k] = re[r];
            im[k] = im[r];
            re[r] = x;
            im[r] = y;
        }
    }
}

/* From the spectrum of a + i b, a and b real, twice the spectra of a, at k, and of b, at T - k. */
static __device__ __forceinline__ void separate(float (&re)[T], float (&im)[T])
{
#pragma unroll
    for (unsigned k = 0; k < T; k += HALF) {
        re[k] += re[k];
        im[k] += im[k];
    }
#pragma unroll
    for (unsigned k = 1; k < HALF; k++) {
        const float a = re[k], b = im[k], c = re[T - k], d = im[T - k];
        re[k] = a + c;
        im[k] = b - d;
        re[T - k] = b + d;
        im[T - k] = c - a;
    }
}

/* Has `put` store real and imaginary part of each frequency of a column, in a spectrum whose
 * places are OF_PLACE elements apart. */
template <unsigned OF_PLACE, class Put>
static __device__ __forceinline__ void put_places(
    const float (&re)[T], const float (&im)[T], float* spectrum, Put put)
{
    const unsigned item = threadIdx.x / LINES;
    float* first = spectrum + item * OF_PLACE;
#pragma unroll
    for (unsigned u = 0; u < T; u++) {
        const bool apart = u % HALF == 0 && item == 0; /* two real numbers */
        put(first + u * (HALF * OF_PLACE), re[u], apart ? 0 : im[u]);
        if (apart)
            put(spectrum + (SECOND + u / HALF) * OF_PLACE, im[u], 0);
    }
}

/* From rows of a tile to a column of its spectrum, scaled by 2, and of item 0 by 4. */
static __device__ __forceinline__ void spectrum_of(float (&re)[T], float (&im)[T])
{
    __shared__ float parts[TILE_LDS];
    const unsigned line = threadIdx.x % LINES;
    const unsigned item = threadIdx.x / LINES;
    transform(re, im);
    separate(re, im);
    const unsigned row = 2 * item * ROW + line; /* and the next one */
    const float middle = re[HALF];
    parts[row] = re[0];
    parts[row + ROW] = im[0];
#pragma unroll
    for (unsigned k = 1; k < HALF; k++) {
        parts[row + k * LINES] = re[k];
        parts[row + ROW + k * LINES] = re[T - k];
    }
    __syncthreads();
#pragma unroll
    for (unsigned r = 0; r < T; r++)
        re[r] = parts[r * ROW + threadIdx.x];
    __syncthreads();
    parts[row] = middle;
    parts[row + ROW] = im[HALF];
#pragma unroll
    for (unsigned k = 1; k < HALF; k++) {
        parts[row + k * LINES] = im[k];
        parts[row + ROW + k * LINES] = im[T - k];
    }
    __syncthreads();
#pragma unroll
    for (unsigned r = 0; r < T; r++)
        im[r] = parts[r * ROW + threadIdx.x];
    transform(re, im);
    if (item == 0)
        separate(re, im);
}

/* What PASSES is read once, and is the first to leave NVIDIA's caches. */
template <bool PASSES>
static __device__ __forceinline__ float element(const float* at)
{
#ifdef __CUDACC_RTC__
    if constexpr (PASSES) {
        float value;
        asm("ld.global.cs.f32 %0, [%1];" : "=f"(value) : "l"(at));
        return value;
    }
#endif
    return *at;
}

/* The column that was put so, imaginary parts OF_PART behind real ones. With PASSES, rows are
 * read whole, and once. */
template <unsigned OF_PLACE, unsigned OF_PART, bool PASSES = false>
static __device__ __forceinline__ void take_places(
    float (&re)[T], float (&im)[T], const float* spectrum)
{
    const unsigned item = threadIdx.x / LINES;
    const float* first = spectrum + item * OF_PLACE;
#pragma unroll
    for (unsigned u = 0; u < T; u++) {
        re[u] = element<PASSES>(first + u * (HALF * OF_PLACE));
        im[u] = u % HALF == 0 && item == 0
                    ? element<PASSES>(spectrum + (SECOND + u / HALF) * OF_PLACE)
                    : element<PASSES>(first + (u * (HALF * OF_PLACE) + OF_PART));
    }
}

/* From the spectra of a, at k, and of b, at T - k, a and b real, that of a + i b. */
static __device__ __forceinline__ void join(float (&re)[T], float (&im)[T])
{
#pragma unroll
    for (unsigned k = 1; k < HALF; k++) {
        const float a = re[k], b = im[k], c = re[T - k], d = im[T - k];
        re[k] = a - d;
        im[k] = b + c;
        re[T - k] = a + d;
        im[T - k] = c - b;
    }
}

/* From a column of a spectrum to rows of the tile, scaled by T * T. */
static __device__ __forceinline__ void tile_of(float (&re)[T], float (&im)[T], float* parts)
{
    const unsigned line = threadIdx.x % LINES;
    const unsigned item = threadIdx.x / LINES;
    if (item == 0)
        join(re, im);
    transform(im, re);
#pragma unroll
    for (unsigned r = 0; r < T; r++)
        parts[r * ROW + threadIdx.x] = re[r];
    __syncthreads();
    const unsigned row = 2 * item * ROW + line; /* and the next one */
    re[0] = parts[row];
    const float next = parts[row + ROW];
#pragma unroll
    for (unsigned k = 1; k < HALF; k++) {
        re[k] = parts[row + k * LINES];
        re[T - k] = parts[row + ROW + k * LINES];
    }
    __syncthreads();
#pragma unroll
    for (unsigned r = 0; r < T; r++)
        parts[r * ROW + threadIdx.x] = im[r];
    __syncthreads();
    im[0] = next;
    re[HALF] = parts[row];
    im[HALF] = parts[row + ROW];
#pragma unroll
    for (unsigned k = 1; k < HALF; k++) {
        im[k] = parts[row + k * LINES];
        im[T - k] = parts[row + ROW + k * LINES];
    }
    join(re, im);
    transform(im, re);
}
