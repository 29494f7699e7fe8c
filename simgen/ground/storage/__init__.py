"""Files that anybody may have written or may write at the same time: regular files only, JSON and
HDF5 with types and bounds, atomic writing, locks, seals. Knows nothing of workloads.

May import: ground.
"""
