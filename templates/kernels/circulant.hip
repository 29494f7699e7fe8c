/* Real Fourier transforms of blocks of SIZE numbers, and back: a block by each work-item. Of
 * each frequency, spectra lie as matrices of real numbers, [DOWN][2 ACROSS], the real parts of a
 * row and then the imaginary ones, so that a product of matrices multiplies and adds them up.
 * Those of the filters lie as [2 DOWN][2 ACROSS]: re and -im, and below im and re. */
#include "prelude.h"
#include "constants/circulant.h"

constexpr unsigned HALF = SIZE / 2; /* frequencies 0 to HALF say what the others are */
constexpr unsigned BLOCKS = DOWN * ACROSS;
constexpr bool OF_FILTERS = STEP == Step::FILTERS || STEP == Step::GRADIENT;
/* where the lower half of a matrix of filters begins */
constexpr unsigned LOWER = BLOCKS * 2;
constexpr unsigned MATRIX = BLOCKS * (OF_FILTERS ? 4 : 2); /* elements of one frequency */

/* cos(2 pi k / n), k up to n / 4, by its series. */
static __device__ __forceinline__ constexpr double cosine(unsigned k, unsigned n)
{
    const double angle = 6.283185307179586 * k / n;
    double term = 1;
    double sum = 1;
    for (unsigned i = 2; i < 30; i += 2) {
        term *= -angle * angle / (i * (i - 1));
        sum += term;
    }
    return sum;
}

/* exp(-2 pi i K / N) = COS - i SIN, K up to N / 4. */
template <unsigned N, unsigned K>
struct Turn {
    static constexpr float COS = K == N / 4 ? 0.0f : static_cast<float>(cosine(K, N));
    static constexpr float SIN = K == 0 ? 0.0f : static_cast<float>(cosine(N / 4 - K, N));
};

/* Frequencies K and N / 2 - K of N numbers, and so on, from the spectra of the even and of the
 * odd ones. */
template <unsigned N, unsigned K>
static __device__ __forceinline__ void join(const float* even_re, const float* even_im,
    const float* odd_re, const float* odd_im, float* re, float* im)
{
    float x = odd_re[K];
    float y = odd_im[K];
    if constexpr (K > 0 && K == N / 4) {
        y = -x;
        x = 0.0f;
    } else if constexpr (K > 0) {
        constexpr float C = Turn<N, K>::COS;
        constexpr float S = Turn<N, K>::SIN;
        const float turned = fused(x, C, y * S);
        y = fused(y, C, x * -S);
        x = turned;
    }
    re[N / 2 - K] = even_re[K] - x;
    im[N / 2 - K] = y - even_im[K];
    re[K] = even_re[K] + x;
    im[K] = even_im[K] + y;
    if constexpr (K + 1 <= N / 4)
        join<N, K + 1>(even_re, even_im, odd_re, odd_im, re, im);
}

/* The spectrum of N numbers that lie STRIDE apart: frequencies 0 to N / 2. */
template <unsigned N, unsigned STRIDE>
static __device__ __forceinline__ void spectrum(const float* from, float* re, float* im)
{
    if constexpr (N == 1) {
        re[0] = from[0];
        im[0] = 0.0f;
    } else {
        float even_re[N / 4 + 1], even_im[N / 4 + 1], odd_re[N / 4 + 1], odd_im[N / 4 + 1];
        spectrum<N / 2, 2 * STRIDE>(from, even_re, even_im);
        spectrum<N / 2, 2 * STRIDE>(from + STRIDE, odd_re, odd_im);
        join<N, 0>(even_re, even_im, odd_re, odd_im, re, im);
    }
}

/* The reverse of join, but for a factor of 2. */
template <unsigned N, unsigned K>
static __device__ __forceinline__ void part(
    const float* re, const float* im, float* even_re, float* even_im, float* odd_re, float* odd_im)
{
    const float x = re[K] - re[N / 2 - K];
    const float y = im[K] + im[N / 2 - K];
    even_re[K] = re[K] + re[N / 2 - K];
    even_im[K] = im[K] - im[N / 2 - K];
    if constexpr (K == 0) {
        odd_re[K] = x;
        odd_im[K] = y;
    } else if constexpr (K == N / 4) {
        odd_re[K] = -y;
        odd_im[K] = x;
    } else {
        constexpr float C = Turn<N, K>::COS;
        constexpr float S = Turn<N, K>::SIN;
        odd_re[K] = fused(x, C, y * -S);
        odd_im[K] = fused(y, C, x * S);
    }
    if constexpr (K + 1 <= N / 4)
        part<N, K + 1>(re, im, even_re, even_im, odd_re, odd_im);
}

/* N times the numbers of a spectrum, STRIDE apart. */
template <unsigned N, unsigned STRIDE>
static __device__ __forceinline__ void numbers(const float* re, const float* im, float* to)
{
    if constexpr (N == 1) {
        to[0] = re[0];
    } else {
        float even_re[N / 4 + 1], even_im[N / 4 + 1], odd_re[N / 4 + 1], odd_im[N / 4 + 1];
        part<N, 0>(re, im, even_re, even_im, odd_re, odd_im);
        numbers<N / 2, 2 * STRIDE>(even_re, even_im, to);
        numbers<N / 2, 2 * STRIDE>(odd_re, odd_im, to + STRIDE);
    }
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    const float* __restrict__ source, float* __restrict__ target)
{
    const unsigned at = blockIdx.x * BLOCK + threadIdx.x;
    if (BLOCKS % BLOCK != 0 && at >= BLOCKS)
        return;
    const unsigned place = at / ACROSS * (2 * ACROSS) + at % ACROSS; /* in a matrix */
    float number[SIZE], re[HALF + 1], im[HALF + 1];
    if constexpr (STEP == Step::ROWS || STEP == Step::FILTERS) {
#pragma unroll
        for (unsigned k = 0; k < SIZE; k++)
            number[k] = source[at * SIZE + k];
        spectrum<SIZE, 1>(number, re, im);
#pragma unroll
        for (unsigned f = 0; f <= HALF; f++) {
            float* const matrix = target + f * MATRIX + place;
            matrix[0] = re[f];
            if constexpr (STEP == Step::ROWS) {
                matrix[ACROSS] = im[f];
            } else {
                matrix[ACROSS] = -im[f];
                matrix[LOWER] = im[f];
                matrix[LOWER + ACROSS] = re[f];
            }
        }
    } else {
#pragma unroll
        for (unsigned f = 0; f <= HALF; f++) {
            const float* const matrix = source + f * MATRIX + place;
            if constexpr (STEP == Step::RESULTS) {
                re[f] = matrix[0];
                im[f] = matrix[ACROSS];
            } else {
                re[f] = matrix[0] + matrix[LOWER + ACROSS];
                im[f] = matrix[LOWER] - matrix[ACROSS];
            }
        }
        im[0] = 0.0f; /* of real numbers */
        im[HALF] = 0.0f;
        numbers<SIZE, 1>(re, im, number);
#pragma unroll
        for (unsigned k = 0; k < SIZE; k++)
            target[at * SIZE + k] = number[k] * (1.0f / SIZE);
    }
}
