"""Pooling, along one axis and along two, and its gradient in tiles.

May import: layers.base, layers.contract, layers.elementwise, layers.reduction,
layers.requantisation, layers.window, layers.written.
"""
