/* The gradient of a convolution's filters as a matrix product, as conv_gemm_filters.hip has it,
 * of tensors with channels last, of 16 bits: the sum over the pixels k of all samples of the
 * result's gradient (m, k) and windows of the image (k, n), n a tap and a channel. It is stored
 * as (filter, tap, channel); where k is cut into chunks, work-groups leave such partial sums. */
#include "prelude.h"
#include "fragment.h"
#include "warpgroups.h"
#include "constants/geometry.h"
#include "constants/tile.h"
#include "constants/conv_last_filters.h"

constexpr unsigned TAPS = KERNEL_H * KERNEL_W;
constexpr unsigned COLUMNS = TAPS * OF_TAP; /* N */
constexpr unsigned PIXELS = RESULT_H * RESULT_W;
/* k of a sample: pixels, and zeros */
constexpr unsigned OF_SAMPLE = PLANES ? (PIXELS + TILE_K - 1) / TILE_K * TILE_K : PIXELS;
constexpr unsigned COUNT = BATCH * OF_SAMPLE; /* K */
constexpr unsigned SIZE = GROUP_FILTERS * TAPS * GROUP_CHANNELS;
/* whether one work-group alone reads each part */
constexpr bool LEFT_ONCE = COLUMNS <= TILE_N, RIGHT_ONCE = GROUP_FILTERS <= TILE_M;

#if STAGES
/* Channels as they are stored, EXTENT of them, of which each has its pixels side by side. */
template <class Stored, unsigned EXTENT>
struct Planes {
    using Element = Stored;
    static constexpr unsigned WIDTH = LEFT_WIDTH;
    static constexpr Along ALONG = LEFT_ALONG;
    static constexpr bool REGULAR = false;
    const Stored* __restrict__ tensor;

    struct Line {
        const Stored* plane;
        unsigned k;
        bool inside;

        __device__ __forceinline__ const char* place(unsigned step) const
        {
            return reinterpret_cast<const char*>(
                plane + (step + k) / OF_SAMPLE * (EXTENT * PIXELS) + (step + k) % OF_SAMPLE);
        }
        __device__ __forceinline__ bool ends(unsigned step) const
        {
            return !inside || step + k >= COUNT || (step + k) % OF_SAMPLE >= PIXELS;
        }
    };
    __device__ __forceinline__ Line line(unsigned at, unsigned apart, unsigned k) const
    {
        return Line{tensor + (at + apart) * PIXELS, k, at + apart < EXTENT};
    }
};

/* The result's gradient. */
struct Results {
    using Element = ResultElement;
    static constexpr unsigned WIDTH = LEFT_WIDTH;
    static constexpr Along ALONG = LEFT_ALONG;
    static constexpr bool REGULAR = RESULT_HELD % TILE_M == 0;
    const ResultElement* __restrict__ result;

    static constexpr __device__ __forceinline__ unsigned apart(unsigned at, unsigned k)
    {
        return sizeof(ResultElement) * (k * RESULT_HELD + at);
    }
    struct Line {
        const ResultElement* first;
        unsigned k;
        bool inside;

        __device__ __forceinline__ const char* place(unsigned step) const
        {
            return reinterpret_cast<const char*>(first + (step + k) * RESULT_HELD);
        }
        __device__ __forceinline__ bool ends(unsigned step) const
        {
            return !inside || (COUNT % TILE_K != 0 && step + k >= COUNT);
        }
    };
    __device__ __forceinline__ Line line(unsigned m, unsigned dm, unsigned k) const
    {
        return Line{result + m + dm, k, REGULAR || m + dm < RESULT_HELD};
    }
};

/* The windows, from the image. */
struct Windows {
    using Element = SourceElement;
    static constexpr unsigned WIDTH = RIGHT_WIDTH;
    static constexpr Along ALONG = RIGHT_ALONG;
    static constexpr bool REGULAR = false;
    const SourceElement* __restrict__ image;

    struct Line {
        /* what the first pixel's tap meets, if that is inside of the image */
        const SourceElement* first;
        int row, column;
        unsigned k;

        __device__ __forceinline__ const char* place(unsigned step) const
        {
            const unsigned sample = (step + k) / PIXELS, pixel = (step + k) % PIXELS;
            const unsigned y = pixel / RESULT_W * STRIDE_H, x = pixel % RESULT_W * STRIDE_W;
            return reinterpret_cast<const char*>(
                first + ((sample * IMAGE_H + y) * IMAGE_W + x) * SOURCE_HELD);
        }
        __device__ __forceinline__ bool ends(unsigned step) const
        {
            const unsigned pixel = (step + k) % PIXELS;
            const unsigned y = row + pixel / RESULT_W * STRIDE_H,
                           x = column + pixel % RESULT_W * STRIDE_W;
            return y >= IMAGE_H || x >= IMAGE_W || (COUNT % TILE_K != 0 && step + k >= COUNT);
        }
    };
    __device__ __forceinline__ Line line(unsigned n, unsigned dn, unsigned k) const
    {
        const unsigned tap = (n + dn) / OF_TAP, channel = (n + dn) % OF_TAP;
        int row = static_cast<int>(tap / KERNEL_W) * DILATION_H - PAD_H;
        const int column = static_cast<int>(tap % KERNEL_W) * DILATION_W - PAD_W;
        if (tap >= TAPS || channel >= SOURCE_HELD)
            row = IMAGE_H; /* nothing is met, and nothing stored */
        return Line{
            image
                + ((row * static_cast<int>(IMAGE_W) + column) * static_cast<int>(SOURCE_HELD)
                    + static_cast<int>(channel)),
            row, column, k};
    }
};

using Left = Either<PLANES, Planes<ResultElement, GROUP_FILTERS>, Results>;
using Right = Either<PLANES, Planes<SourceElement, GROUP_CHANNELS>, Windows>;
using Cut = Tile<TILE_M, TILE_N, TILE_K, ITEM_M, ITEM_N, AHEAD, Total>;
#if TENSOR_MAPS && (defined(__CUDACC__) || defined(__CUDACC_RTC__))
#define BY_WARPGROUPS 1
using Tiled = WarpgroupProduct<Cut, Left, Right, STAGES, LAUNCH_GROUPS, MOVERS>;
#else
using Tiled = StagedProduct<Cut, Left, Right, StagedMma<Cut, ResultElement>, STAGES>;
#endif
#endif

extern "C" __global__ __launch_bounds__(BLOCK + MOVERS, LAUNCH_GROUPS) void KERNEL(
    const SourceElement* __restrict__ source, const ResultElement* __restrict__ result,
    Element* __restrict__ target
#ifdef BY_WARPGROUPS
    ,
    const __grid_constant__ TensorMaps tensor_maps
#endif
)
{
#if STAGES
    ASKED_LDS(lds, Tiled::NBYTES);
#ifdef BY_WARPGROUPS
    const char* const maps = tensor_maps.bytes;
#endif
    const unsigned row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    const unsigned split = SPLITS > 1 ? blockIdx.z : 0;
    const unsigned first = split * CHUNK;
    const unsigned last = COUNT % CHUNK == 0 || first + CHUNK < COUNT ? first + CHUNK : COUNT;
    Element* to = SPLITS > 1 ? target + split * SIZE : target;
    float sum[ITEM_M][ITEM_N] = {};
#ifdef BY_WARPGROUPS
    const bool multiplies = Tiled::multiply_moved(
        [&](unsigned k, unsigned a, unsigned b, unsigned barrier) {
            if constexpr (PLANES) {
                Tiled::move_all<Tiled::A, TILE_M, LEFT_ONCE>(
                    a, maps, row, k % OF_SAMPLE, k / OF_SAMPLE, barrier);
                Tiled::move_all<Tiled::B, TILE_N, RIGHT_ONCE>(
                    b, maps + 128, column, k % OF_SAMPLE, k / OF_SAMPLE, barrier);
                return;
            }
            Tiled::move_all<Tiled::A, TILE_M, LEFT_ONCE>(a, maps, row, k, 0, barrier);
            const unsigned sample = k / PIXELS, pixel = k % PIXELS;
            const int y = static_cast<int>(pixel / RESULT_W * STRIDE_H) - PAD_H;
            const int x = static_cast<int>(pixel % RESULT_W * STRIDE_W) - PAD_W;
#pragma unroll
            for (unsigned panel = 0; panel < TILE_N / 64; panel++) {
                /* not stored */
                const unsigned n =
                    column + panel * 64 < COLUMNS ? column + panel * 64 : COLUMNS - 64;
                const unsigned tap = n / OF_TAP;
                Tiled::move_windows(b + panel * (TILE_K * 128), maps + 128, n % OF_TAP, x, y,
                    sample, tap % KERNEL_W * DILATION_W, tap / KERNEL_W * DILATION_H, barrier);
            }
        },
        first, last, lds, sum);
    if (!multiplies)
        return;
#else
    Tiled::multiply(Left{result}, Right{source}, row, column, first, last, lds, sum);
#endif

#pragma unroll
    for (unsigned j = 0; j < ITEM_N; j += 4) {
        const unsigned n = column + Tiled::column(j);
        /* of 4 neighbours, as OF_TAP is a multiple of 8 */
        const unsigned tap = n / OF_TAP, channel = n % OF_TAP;
#pragma unroll
        for (unsigned i = 0; i < ITEM_M; i++) {
            const unsigned m = row + Tiled::row(i);
            if (m >= GROUP_FILTERS || tap >= TAPS || channel >= GROUP_CHANNELS)
                continue;
            Element* const place = to + (m * TAPS + tap) * GROUP_CHANNELS + channel;
            if constexpr (GROUP_CHANNELS % 4 == 0) {
                put_four(place, sum[i] + j);
            } else {
#pragma unroll
                for (unsigned part = 0; part < 4; part++)
                    if (channel + part < GROUP_CHANNELS)
                        put(place + part, sum[i][j + part]);
            }
        }
    }
#endif
}
