/* Pages of a cache with the keys and values of some tokens in their slots. A work-group has a page,
 * and finds its tokens in the list of slots, of which none is twice there. */
#include "prelude.h"
#include "constants/cache.h"
#include "access.h"

template <unsigned ROW, bool SCALED>
static __device__ __forceinline__ void fill_page(const Element* tokens, const Stored* from,
    Stored* to, const unsigned* owners, float factor)
{
    for (unsigned at = threadIdx.x * VECTOR; at < PAGE * ROW; at += BLOCK * VECTOR) {
        const unsigned owner = owners[at / ROW];
        float part[VECTOR];
        if (owner < TOKENS) {
            const Element* token = tokens + owner * ROW + at % ROW;
            if constexpr (VECTOR == 4)
                unpack(part, load4(token));
            else
                part[0] = load(token, 0);
            if constexpr (SCALED)
#pragma unroll
                for (unsigned j = 0; j < VECTOR; j++)
                    part[j] *= factor;
        } else {
            if constexpr (VECTOR == 4)
                unpack(part, load4(from + at));
            else
                part[0] = load(from, at);
        }
        if constexpr (VECTOR == 4)
            store4(to + at, float4{part[0], part[1], part[2], part[3]});
        else
            store(to, at, part[0]);
    }
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(const Element* __restrict__ keys,
    const Element* __restrict__ values, const int* __restrict__ slots,
    const Stored* __restrict__ key_cache, const Stored* __restrict__ value_cache,
    Stored* __restrict__ key_pages, Stored* __restrict__ value_pages)
{
    __shared__ unsigned owners[PAGE];
    const unsigned page = blockIdx.x;
    if (page >= PAGES)
        return;
    for (unsigned at = threadIdx.x; at < PAGE; at += BLOCK)
        owners[at] = TOKENS;
    __syncthreads();
    for (unsigned token = threadIdx.x; token < TOKENS; token += BLOCK) {
        const unsigned place = static_cast<unsigned>(slots[token]) - page * PAGE;
        if (place < PAGE)
            owners[place] = token;
    }
    __syncthreads();
    fill_page<KEY_ROW, KEY_FACTOR != 1.0f>(keys, key_cache + page * PAGE * KEY_ROW,
        key_pages + page * PAGE * KEY_ROW, owners, KEY_FACTOR);
    fill_page<VALUE_ROW, VALUE_FACTOR != 1.0f>(values, value_cache + page * PAGE * VALUE_ROW,
        value_pages + page * PAGE * VALUE_ROW, owners, VALUE_FACTOR);
}
