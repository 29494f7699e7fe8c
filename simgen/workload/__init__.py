"""From a network to a workload: kernels, launches, buffers and their places; what it costs; its
reference in float64; the share of each of several GPUs. Knows no target.

May import: ask, errors, frontend, ground, layers.
"""
