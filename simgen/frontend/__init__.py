"""From what a user writes to layers in a network: the grammar of configs, what a name means, lists
of problems, lines of other programs (drivers/), models of frameworks (importing/), shapes resolved,
layers fused. Knows no kernels.

May import: ask, errors, ground, layers.
"""
