"""Mixtures of experts: routers, the order of tokens by experts, products with the chosen ones.

May import: layers.base, layers.contract, layers.elementwise, layers.gate_unit, layers.indices,
layers.quantised, layers.with_error, layers.written.
"""
