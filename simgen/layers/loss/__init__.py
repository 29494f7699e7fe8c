"""Losses: what training makes small, one number of a batch, and where its gradients begin.

May import: layers.axes, layers.base, layers.contract, layers.elementwise, layers.indices,
layers.reduction, layers.softmax, layers.written.
"""
