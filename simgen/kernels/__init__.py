"""From a kernel to bytes: templates to text, the compiler, rewriting assembly for a simulator, the
cache. Knows kernels and architectures, no workloads.

May import: ask, errors, ground, isa.
"""
