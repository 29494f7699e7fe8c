/* What kernels are called with, and how: a function for each that gives it the arguments in a list. */
enum : bool { written, input };
enum : bool { shared_place, alone };
const buffer buffers[BUFFERS] = {
    { "in.x", 0, 4096,
      input, alone },
    { "swap0.y", 8192, 4096,
      written, alone },
    { "swap1.y", 16384, 4096,
      written, alone },
};

/* The buffers that each launch's arguments are; others may have the same place at other times. */
const u32 tensors[LAUNCHES][MAX_ARGS] = {
    {0, 1},
    {1, 2},
};

#pragma clang attribute push(VECTORS, apply_to = function)
static void run_swap(const u64 *arg)
{
    while (start_item()) {
        in_swap::swap(
            argument{ arg[0] },
            argument{ arg[1] });
        end_item();
    }
}
#pragma clang attribute pop

/* The linker defines these where a kernel has LDS. */
extern "C" __attribute__((weak)) char __start_lds_swap[];
extern "C" __attribute__((weak)) char __stop_lds_swap[];
static const kernel kernels[] = {
    {
        "swap",
        "swap.hip",
        run_swap,
        __start_lds_swap,
        __stop_lds_swap,
    },
};
