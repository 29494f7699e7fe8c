#pragma once

#define KERNEL attention_sample
constexpr unsigned BLOCK = 256;
constexpr unsigned HEADS = 4; /* of all samples: those of keys and values */
constexpr unsigned KV_HEADS = 2; /* of a sample */
constexpr unsigned ROWS = 256; /* queries of all heads that share such a one */
constexpr unsigned QUERIES = 128; /* of a head */
constexpr unsigned KEYS = 128;
constexpr unsigned DIM = 64; /* elements of a query, and of a key */
constexpr unsigned VALUE_DIM = 64; /* of a value */
constexpr unsigned TILE_ROWS = 32;
constexpr unsigned TILE_KEYS = 32;
constexpr unsigned SLICES = 16; /* work-items of a row */
/* keys of a work-group; with fewer than KEYS, another kernel joins */
constexpr unsigned CHUNK = 128;
constexpr float SCALE = 0.125f;
constexpr float CAP = 0.0f; /* what scores are bent below; 0: no cap */
constexpr bool CAUSAL = true;
constexpr unsigned WINDOW = 0; /* keys that a query sees, its own the last; 0: all */
constexpr unsigned PAGE = 0; /* tokens of a page; 0: no pages */
#define WITH_LENGTHS 0
#define WITH_TABLE 0 /* of pages */
#define WITH_MASK 0
#define WITH_SINKS 0
#define WITH_PARTS 0
constexpr bool KEEPS = false; /* what is no 0 in the mask is seen; otherwise it is added */
constexpr unsigned MASK_SAMPLE = 0; /* from sample to sample of the mask */
constexpr unsigned MASK_HEAD = 0; /* from head to head of the mask */
using Element = float; /* of queries and results in memory */
using Cached = float; /* of keys and values */
