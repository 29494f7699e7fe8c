"""Normalisation of batches and of channels.

May import: layers.base, layers.reduction, layers.written.
"""
