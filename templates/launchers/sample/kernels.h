/* The kernels, each in a name space of its own, with a section of its own for LDS. */
namespace in_swap {
#pragma clang section bss = "lds_swap"
#include "swap.hip"
#pragma clang section bss = ""
}

#define BUFFERS 3
#define CANARY 0xffc0de5au
#define MOST_ITEMS 64u /* in a work-group */
