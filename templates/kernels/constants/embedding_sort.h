#pragma once

#define KERNEL embedding_sort_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned PLACES = 5000; /* words of the text */
constexpr unsigned CHUNK = 2048; /* keys of a work-group, a power of two */
