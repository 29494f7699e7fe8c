"""What every room stands on: the values that pass between rooms (`ir`), element types, machines,
metrics, files that anybody may write (storage/), bounds of rounding (numerics/). Knows no workload.

May import: errors.
"""
