"""Products of a sparse matrix: in compressed rows, of elements or of blocks; two of every four.

May import: layers.base, layers.contract, layers.product, layers.written.
"""
