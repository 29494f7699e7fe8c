"""Tensors in files: random, exact and users' own values, data.h5 and its header, mmap.bin, and what
finished steps leave. Knows names and shapes of tensors.

May import: ask, errors, frontend, ground, layers.
"""
