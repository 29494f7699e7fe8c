"""Recurrent layers: the cells, one kernel for each time step, what their arithmetic loses.

May import: layers.activation, layers.base, layers.contract, layers.conversion, layers.layout,
layers.product, layers.written.
"""
