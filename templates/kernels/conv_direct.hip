/* Direct convolution: the target from the source, each element a sum of GROUP_IN x ROWS_TAPS x
 * COLUMNS_TAPS products, and what follows. A work-item computes FILTERS channels of SETS x WIDE
 * pixels, WIDE of them side by side in a row. */
#include "prelude.h"
#include "vector.h"
#include "constants/gather.h"
#include "constants/conv_direct.h"
#include "epilogue.h"

constexpr const AddedElement* bias = nullptr; /* stands for a parameter that the kernel may lack */
/* work-groups that share the channels of a group */
constexpr unsigned OUT_BLOCKS = (GROUP_OUT + FILTERS - 1) / FILTERS;
/* filters in LDS: whole float4s */
constexpr unsigned STRIPE = (FILTERS + 3) / 4 * 4;
/* sets of WIDE pixels in a row */
constexpr unsigned STRIPS = (COLUMNS_COUNT + WIDE - 1) / WIDE;
constexpr unsigned TOTAL = BATCH * ROWS_COUNT * STRIPS;
constexpr bool PARTLY = TOTAL % (BLOCK * SETS) != 0; /* the last work-item's strips are too many */
constexpr unsigned TAPS = ROWS_TAPS * COLUMNS_TAPS;
constexpr unsigned SOURCE_SIZE = ROWS_SOURCE * COLUMNS_SOURCE;
constexpr unsigned TARGET_SIZE = ROWS_EXTENT * COLUMNS_EXTENT;
/* Pixels of a row of the source that WIDE results need, and LEAD before them, so that loads are
 * aligned. */
constexpr unsigned LEAD = (COLUMNS_START % static_cast<int>(VECTOR) + VECTOR) % VECTOR;
constexpr unsigned NEEDED =
    LEAD + (WIDE - 1) * COLUMNS_STRIDE + (COLUMNS_TAPS - 1) * COLUMNS_GAP + 1;
constexpr unsigned SEGMENT = WIDE > 1 ? (NEEDED + VECTOR - 1) / VECTOR * VECTOR : 1;
constexpr unsigned UNROLLED_ROWS = UNROLLED ? ROWS_TAPS : 1;
constexpr unsigned UNROLLED_COLUMNS =
    WIDE > 1 || COLUMNS_TAPS <= 16 ? COLUMNS_TAPS : Unrolled<4, SourceElement>::COUNT;

/* The filters of channels [channel, channel + CHUNK) to LDS, as [channel][tap][filter]; `first`
 * is a channel of the target. */
static __device__ __forceinline__ void load_filters(
    const FilterElement* __restrict__ filters, Total* taps, unsigned first, unsigned channel)
{
    for (unsigned i = threadIdx.x; i < CHUNK * TAPS * STRIPE; i += BLOCK) {
        const unsigned filter = i % STRIPE;
        const unsigned tap = i / STRIPE % TAPS;
        const unsigned c = channel + i / (STRIPE * TAPS);
        /* Steps back are subtracted: NVRTC 13.0 makes wild loads where it adds what counts down
         * as an unsigned number. */
        const unsigned r = ROWS_FILTER_STEP < 0
                               ? ROWS_FILTER_FIRST - -ROWS_FILTER_STEP * (tap / COLUMNS_TAPS)
                               : ROWS_FILTER_FIRST + ROWS_FILTER_STEP * (tap / COLUMNS_TAPS);
        const unsigned s = COLUMNS_FILTER_STEP < 0
                               ? COLUMNS_FILTER_FIRST - -COLUMNS_FILTER_STEP * (tap % COLUMNS_TAPS)
                               : COLUMNS_FILTER_FIRST + COLUMNS_FILTER_STEP * (tap % COLUMNS_TAPS);
        const bool inside = filter < FILTERS
                            && (GROUP_OUT % FILTERS == 0 || first % GROUP_OUT + filter < GROUP_OUT)
                            && (GROUP_IN % CHUNK == 0 || c < GROUP_IN);
        const unsigned of_group =
            GROUPS > 1 ? first / GROUP_OUT * GROUP_STRIDE + first % GROUP_OUT * OUT_STRIDE
                       : first * OUT_STRIDE;
        const unsigned at = of_group + filter * OUT_STRIDE + c * IN_STRIDE + r * KERNEL_W + s;
        taps[i] = inside ? load(filters, at) : Total{};
    }
}

static __device__ __forceinline__ Total finished(Total sum, Total shift, const Epilogue& epilogue)
{
    sum = WITH_BIAS ? plus(sum, shift) : sum;
    if constexpr (WITH_EPILOGUE)
        return epilogue(sum);
    else
        return sum;
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const SourceElement* __restrict__ source,
    const FilterElement* __restrict__ filters,
#if WITH_BIAS
    const AddedElement* __restrict__ bias,
#endif
#if WITH_BATCH_NORM
    const float* __restrict__ bn_w, const float* __restrict__ bn_b,
    const float* __restrict__ running_mean, const float* __restrict__ running_var,
#endif
#if WITH_CHANNEL_SCALES
    const float* __restrict__ channel_scales,
#endif
    Element* __restrict__ target)
{
    alignas(16) __shared__ Total taps[CHUNK * TAPS * STRIPE];
    const unsigned group = GROUPS > 1 ? blockIdx.y / OUT_BLOCKS : 0;
    /* of the target */
    const unsigned first =
        GROUPS > 1 ? group * GROUP_OUT + blockIdx.y % OUT_BLOCKS * FILTERS : blockIdx.y * FILTERS;
    unsigned base[SETS]; /* of the image and its group in the source */
    int row[SETS];       /* of the source, at the first tap */
    int column[SETS];
#pragma unroll
    for (unsigned set = 0; set < SETS; set++) {
        unsigned strip = blockIdx.x * (BLOCK * SETS) + set * BLOCK + threadIdx.x;
        if constexpr (PARTLY)
            strip = strip < TOTAL ? strip : TOTAL - 1; /* computed once more, and not stored */
        base[set] = (strip / (STRIPS * ROWS_COUNT) * GROUPS + group) * (GROUP_IN * SOURCE_SIZE);
        row[set] = ROWS_START + ROWS_STRIDE * static_cast<int>(strip / STRIPS % ROWS_COUNT);
        column[set] = COLUMNS_START + COLUMNS_STRIDE * static_cast<int>(strip % STRIPS * WIDE)
                      - static_cast<int>(LEAD);
    }

    Total sum[SETS][WIDE][FILTERS] = {};
    /* of the source, in its group; without a loop, where LDS holds the filters of all */
    unsigned channel = 0;
    do {
        if (channel > 0)
            __syncthreads();
        load_filters(filters, taps, first, channel);
        __syncthreads();
        const unsigned channels =
            GROUP_IN % CHUNK != 0 && GROUP_IN - channel < CHUNK ? GROUP_IN - channel : CHUNK;
#pragma unroll 1
        for (unsigned c = 0; c < channels; c++) {
#pragma unroll UNROLLED_ROWS
            for (unsigned r = 0; r < ROWS_TAPS; r++) {
                const Total* filter = taps + (c * TAPS + r * COLUMNS_TAPS) * STRIPE;
                const SourceElement* line[SETS];
                bool row_inside[SETS];
#pragma unroll
                for (unsigned set = 0; set < SETS; set++) {
                    const unsigned apart =
                        static_cast<unsigned>(row[set] + ROWS_GAP * static_cast<int>(r));
                    const unsigned at = apart / ROWS_DIVIDE;
                    row_inside[set] = ROWS_DIVIDE == 1
                                          ? at < ROWS_SOURCE
                                          : at < ROWS_SOURCE && apart % ROWS_DIVIDE == 0;
                    const unsigned place =
                        base[set] + (channel + c) * SOURCE_SIZE + at * COLUMNS_SOURCE;
                    line[set] = COLUMNS_DIVIDE == 1 ? source + place + column[set] : source + place;
                }
                Total pixel[SETS][SEGMENT];
                if constexpr (WIDE > 1) {
#pragma unroll
                    for (unsigned set = 0; set < SETS; set++)
#pragma unroll
                        for (unsigned i = 0; i < SEGMENT; i += VECTOR) {
                            const unsigned at =
                                static_cast<unsigned>(column[set] + static_cast<int>(i));
                            const bool inside = row_inside[set] && at < COLUMNS_SOURCE;
                            const Vector<Total, VECTOR> some =
                                inside ? fetched<Total, VECTOR>(line[set] + i)
                                       : Vector<Total, VECTOR>{};
                            unpack(some, pixel[set] + i);
                        }
                }
#pragma unroll UNROLLED_COLUMNS
                for (unsigned s = 0; s < COLUMNS_TAPS; s++) {
                    if constexpr (WIDE == 1) {
#pragma unroll
                        for (unsigned set = 0; set < SETS; set++) {
                            const unsigned apart = static_cast<unsigned>(
                                column[set] + COLUMNS_GAP * static_cast<int>(s));
                            if constexpr (COLUMNS_DIVIDE > 1) {
                                const unsigned at = apart / COLUMNS_DIVIDE;
                                const bool inside = row_inside[set] && at < COLUMNS_SOURCE
                                                    && apart % COLUMNS_DIVIDE == 0;
                                pixel[set][0] =
                                    inside ? fetched<Total, 1>(line[set] + at) : Total{};
                            } else {
                                const bool inside = row_inside[set] && apart < COLUMNS_SOURCE;
                                pixel[set][0] =
                                    inside ? fetched<Total, 1>(
                                                 line[set] + COLUMNS_GAP * static_cast<int>(s))
                                           : Total{};
                            }
                        }
                    }
                    Total weight[STRIPE];
#pragma unroll
                    for (unsigned k = 0; k < STRIPE; k += 4)
                        unpack(vector_at<4>(filter + s * STRIPE + k), weight + k);
#pragma unroll
                    for (unsigned set = 0; set < SETS; set++)
#pragma unroll
                        for (unsigned i = 0; i < WIDE; i++)
#pragma unroll
                            for (unsigned k = 0; k < FILTERS; k++) {
                                const unsigned at =
                                    WIDE > 1 ? LEAD + COLUMNS_STRIDE * i + COLUMNS_GAP * s : 0;
                                sum[set][i][k] = fused(pixel[set][at], weight[k], sum[set][i][k]);
                            }
                }
            }
        }
        channel += CHUNK;
    } while (GROUP_IN > CHUNK && channel < GROUP_IN);

#pragma unroll
    for (unsigned set = 0; set < SETS; set++) {
        const unsigned strip = blockIdx.x * (BLOCK * SETS) + set * BLOCK + threadIdx.x;
        if (PARTLY && strip >= TOTAL)
            continue;
        const unsigned image = strip / (STRIPS * ROWS_COUNT);
        const unsigned out_row = ROWS_FIRST + ROWS_STEP * (strip / STRIPS % ROWS_COUNT);
        const unsigned out_column = strip % STRIPS * WIDE;
#pragma unroll
        for (unsigned k = 0; k < FILTERS; k++) {
            if (GROUP_OUT % FILTERS != 0 && first % GROUP_OUT + k >= GROUP_OUT)
                continue;
            Element* out = target + (image * (GROUPS * GROUP_OUT) + first + k) * TARGET_SIZE
                           + out_row * COLUMNS_EXTENT;
            const Total shift = WITH_BIAS ? load(bias, first + k) : Total{};
            const Epilogue epilogue =
                epilogue_of(first + k, bn_w, bn_b, running_mean, running_var, channel_scales);
            if constexpr (COLUMNS_STEP == 1 && WIDE == 4 && COLUMNS_COUNT % 4 == 0) {
                Total results[WIDE];
#pragma unroll
                for (unsigned i = 0; i < WIDE; i++)
                    results[i] = finished(sum[set][i][k], shift, epilogue);
                store_vector<WIDE>(out + out_column, results);
            } else {
#pragma unroll
                for (unsigned i = 0; i < WIDE; i++)
                    if (COLUMNS_COUNT % WIDE == 0 || out_column + i < COLUMNS_COUNT)
                        store(out, COLUMNS_FIRST + COLUMNS_STEP * (out_column + i),
                            finished(sum[set][i][k], shift, epilogue));
            }
        }
    }
}
