"""Powers of two, to which work-groups, simulated memories and kernels of libraries round."""


def next_power_of_two(n: int) -> int:
    """The least power of two that is not less than n, for n of 1 or more."""
    return 1 << (n - 1).bit_length()
