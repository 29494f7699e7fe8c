"""What float arithmetic may lose, and when it loses nothing: bounds, the spread of honest errors,
exact sums. Knows numbers, no layers.

May import: ground.arrays, ground.dtypes.
"""
