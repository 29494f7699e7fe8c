#pragma once

#define KERNEL embedding_merge_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned PLACES = 5000; /* words of the text */
constexpr unsigned RUN = 2048; /* keys that are sorted before */
