"""Normalisation of batches, of rows and of channels.

May import: layers.axes, layers.base, layers.contract, layers.elementwise, layers.gelu,
layers.product, layers.quantised, layers.reduction, layers.written.
"""
