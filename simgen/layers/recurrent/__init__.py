"""Recurrent layers: the cells, one kernel for each time step, launches, values and what they lose.

May import: layers.activation, layers.base, layers.contract, layers.conversion, layers.layout,
layers.product, layers.written.
"""
