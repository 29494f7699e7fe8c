"""Matrix products: how they are cut into tiles, and the layers that are one.

May import: layers.axes, layers.base, layers.contract, layers.epilogue, layers.quantised,
layers.requantisation, layers.written.
"""
