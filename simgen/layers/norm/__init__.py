"""Normalisation of batches, of rows and of channels.

<<<<<<< HEAD
May import: layers.axes, layers.base, layers.product, layers.reduction.
=======
May import: layers.base, layers.reduction, layers.written.
>>>>>>> main
"""
