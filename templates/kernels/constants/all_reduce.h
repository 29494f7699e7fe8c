/* A sum of vectors (simgen/layers/all_reduce.py), with sample values. */
#pragma once

#define KERNEL all_reduce_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned RANKS = 4;
constexpr unsigned SIZE = 1000; /* elements of each */
constexpr unsigned WIDTH = 4; /* elements of an access */
