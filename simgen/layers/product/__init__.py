"""Matrix products: how they are cut into tiles, and the layers that are one.

<<<<<<< HEAD
May import: layers.axes, layers.base, layers.epilogue.
=======
May import: layers.base, layers.epilogue, layers.written.
>>>>>>> main
"""
