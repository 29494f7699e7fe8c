"""Convolution: where it reads, its algorithms, and their kernels, references and errors.

May import: layers.base, layers.contract, layers.epilogue, layers.layout, layers.product,
layers.requantisation, layers.window, layers.written.
"""
