/* So many elements that lie side by side, moved at once. */
#pragma once
#include "prelude.h"

/* Elements of a narrow type as they lie in memory, the first one lowest; of less than a word,
 * what is above them is anything. */
template <class Element, unsigned WIDTH>
struct alignas(WIDTH * sizeof(Element) == 8 ? 8 : 4) Packed {
    unsigned words[(WIDTH * sizeof(Element) + 3) / 4];
};
template <class Element, unsigned WIDTH>
struct VectorOf {
    using Type = Packed<Element, WIDTH>;
};
template <>
struct VectorOf<float, 1> {
    using Type = float;
};
template <>
struct VectorOf<float, 2> {
    using Type = float2;
};
template <>
struct VectorOf<float, 4> {
    using Type = float4;
};
template <>
struct VectorOf<int, 1> {
    using Type = int;
};
template <>
struct VectorOf<int, 2> {
    using Type = int2;
};
template <>
struct VectorOf<int, 4> {
    using Type = int4;
};
template <class Element, unsigned WIDTH>
using Vector = typename VectorOf<Element, WIDTH>::Type;

/* The vector that begins with an element, which is aligned to the whole of it. */
template <unsigned WIDTH, class Element>
static __device__ __forceinline__ const Vector<Element, WIDTH>& vector_at(const Element* first)
{
    return *reinterpret_cast<const Vector<Element, WIDTH>*>(first);
}
template <unsigned WIDTH, class Element>
static __device__ __forceinline__ Vector<Element, WIDTH>& vector_at(Element* first)
{
    return *reinterpret_cast<Vector<Element, WIDTH>*>(first);
}

/* The elements of a vector to an array, so far apart. */
static __device__ __forceinline__ void unpack(float from, float* to, unsigned = 1) { to[0] = from; }
static __device__ __forceinline__ void unpack(float2 from, float* to, unsigned apart = 1)
{
    to[0] = from.x;
    to[apart] = from.y;
}
static __device__ __forceinline__ void unpack(float4 from, float* to, unsigned apart = 1)
{
    to[0] = from.x;
    to[apart] = from.y;
    to[2 * apart] = from.z;
    to[3 * apart] = from.w;
}
static __device__ __forceinline__ void unpack(int from, int* to, unsigned = 1) { to[0] = from; }
static __device__ __forceinline__ void unpack(int2 from, int* to, unsigned apart = 1)
{
    to[0] = from.x;
    to[apart] = from.y;
}
static __device__ __forceinline__ void unpack(int4 from, int* to, unsigned apart = 1)
{
    to[0] = from.x;
    to[apart] = from.y;
    to[2 * apart] = from.z;
    to[3 * apart] = from.w;
}

/* The bits of so many elements side by side. */
template <class Held, unsigned WIDTH>
static __device__ __forceinline__ Packed<Held, WIDTH> packed_of(const unsigned (&bits)[WIDTH])
{
    Packed<Held, WIDTH> held{};
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++)
        held.words[i * sizeof(Held) / 4] |= opaque(bits[i]) << i * sizeof(Held) % 4 * 8;
    return held;
}

/* WIDTH elements of a tensor, which begin at a multiple of them, as a vector of Held: float or
 * int, or what is stored itself. Of narrow elements the words are loaded that they lie in. */
template <class Held, unsigned WIDTH, class Stored>
static __device__ __forceinline__ Vector<Held, WIDTH> fetched(const Stored* first)
{
    constexpr unsigned NBYTES = WIDTH * sizeof(Stored);
    /* whole numbers, all of which the type has */
    if constexpr (sizeof(Held) < 4 && sizeof(Stored) < sizeof(Held)) {
        float values[WIDTH];
        unpack(fetched<float, WIDTH>(first), values);
        unsigned bits[WIDTH];
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++)
            bits[i] = Held::keep(values[i]);
        return packed_of<Held>(bits);
    /* which numbers of the narrow type are stored as */
    } else if constexpr (sizeof(Stored) == 4 && sizeof(Held) < 4) {
        Packed<Held, WIDTH> held{};
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++)
            held.words[i * sizeof(Held) / 4] |= Held::keep(first[i]) << i * sizeof(Held) % 4 * 8;
        return held;
    } else if constexpr (sizeof(Stored) == 4) {
        return vector_at<WIDTH>(first);
    } else if constexpr (sizeof(Held) < 4 && NBYTES >= 4) {
        return *reinterpret_cast<const Packed<Stored, WIDTH>*>(first);
    } else if constexpr (NBYTES >= 4 && WIDTH == 4) {
        return load4(first);
    } else {
        const unsigned skipped =
            NBYTES < 4 ? static_cast<unsigned>(reinterpret_cast<unsigned long long>(first) & 3) : 0;
        const unsigned word =
            *reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(first) - skipped)
            >> 8 * skipped;
        if constexpr (sizeof(Held) < 4)
            return Packed<Stored, WIDTH>{{word}};
        else if constexpr (WIDTH == 1)
            return Stored::widen(word);
        else
            return Vector<Held, 2>{Stored::widen(word), Stored::widen(word >> Stored::BITS)};
    }
}

/* How often to unroll a loop around loads of such elements, of which there are not so few that
 * all of it is: on AMD GPUs, what widens narrow ones is opaque, and compilers unroll no such
 * loop with a rest. */
template <unsigned TIMES, class One, class Other = float>
struct Unrolled {
#ifdef __AMDGCN__
    static constexpr unsigned COUNT = sizeof(One) < 4 || sizeof(Other) < 4 ? 1 : TIMES;
#else
    static constexpr unsigned COUNT = TIMES;
#endif
};

/* A vector of elements that are so far apart. */
template <class Held, unsigned WIDTH, class Stored>
static __device__ __forceinline__ Vector<Held, WIDTH> gathered(const Stored* first, unsigned apart)
{
    if constexpr (WIDTH == 1)
        return fetched<Held, 1>(first);
    else if constexpr (WIDTH == 2)
        return Vector<Held, 2>{fetched<Held, 1>(first), fetched<Held, 1>(first + apart)};
    else
        return Vector<Held, 4>{fetched<Held, 1>(first), fetched<Held, 1>(first + apart),
            fetched<Held, 1>(first + 2 * apart), fetched<Held, 1>(first + 3 * apart)};
}

/* WIDTH elements of an array to memory, at once. Narrow ones are 4: nothing defines another
 * store of them. */
template <unsigned WIDTH, class Stored, class Number>
static __device__ __forceinline__ void store_vector(Stored* to, const Number* from)
{
    if constexpr (sizeof(Stored) == 4 && WIDTH == 1)
        *to = from[0];
    else if constexpr (sizeof(Stored) == 4 && WIDTH == 2)
        vector_at<2>(to) = Vector<Number, 2>{from[0], from[1]};
    else if constexpr (sizeof(Stored) == 4)
        vector_at<4>(to) = Vector<Number, 4>{from[0], from[1], from[2], from[3]};
    else if constexpr (WIDTH == 4)
        store4(to, Vector<Number, 4>{from[0], from[1], from[2], from[3]});
    else
        store(to, WIDTH, from[0]);
}

/* The same of a vector. */
template <class Element, class Values>
static __device__ __forceinline__ void store_whole(Element* to, const Values& values)
{
    if constexpr (sizeof(Element) == 4)
        *reinterpret_cast<Values*>(to) = values;
    else
        store4(to, values);
}

static __device__ __forceinline__ void operator+=(float2& a, const float2& b)
{
    a.x += b.x;
    a.y += b.y;
}
static __device__ __forceinline__ void operator+=(float4& a, const float4& b)
{
    a.x += b.x;
    a.y += b.y;
    a.z += b.z;
    a.w += b.w;
}
static __device__ __forceinline__ void operator+=(int2& a, const int2& b)
{
    a.x = plus(a.x, b.x);
    a.y = plus(a.y, b.y);
}
static __device__ __forceinline__ void operator+=(int4& a, const int4& b)
{
    a.x = plus(a.x, b.x);
    a.y = plus(a.y, b.y);
    a.z = plus(a.z, b.z);
    a.w = plus(a.w, b.w);
}
/* The same of a vector of any width. */
template <class Some>
static __device__ __forceinline__ void add(Some& sum, const Some& more)
{
    if constexpr (sizeof(Some) == 4)
        sum = plus(sum, more);
    else
        sum += more;
}
