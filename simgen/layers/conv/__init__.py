"""Convolution: where it reads, its algorithms, and their kernels, references and errors.

<<<<<<< HEAD
May import: layers.base, layers.contract, layers.epilogue, layers.product, layers.requantisation,
=======
May import: layers.base, layers.contract, layers.epilogue, layers.layout, layers.product,
>>>>>>> main
layers.window, layers.written.
"""
