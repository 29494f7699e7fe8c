/* So many elements that lie side by side, moved at once. */
#pragma once
#include "prelude.h"

template <class Element, unsigned WIDTH>
struct VectorOf;
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

/* A vector of elements that are so far apart. */
template <unsigned WIDTH>
static __device__ __forceinline__ Vector<float, WIDTH> gathered(const float* first, unsigned apart)
{
    if constexpr (WIDTH == 1)
        return first[0];
    else if constexpr (WIDTH == 2)
        return float2{first[0], first[apart]};
    else
        return float4{first[0], first[apart], first[2 * apart], first[3 * apart]};
}

/* WIDTH elements of an array to memory, at once. */
template <unsigned WIDTH>
static __device__ __forceinline__ void store_vector(float* to, const float* from)
{
    if constexpr (WIDTH == 1)
        *to = from[0];
    else if constexpr (WIDTH == 2)
        vector_at<2>(to) = float2{from[0], from[1]};
    else
        vector_at<4>(to) = float4{from[0], from[1], from[2], from[3]};
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
