"""Whether it computed the right thing: two tensors, a step of one GPU or several, whole results,
and what that comes to in words.

May import: ask, arrays, bundle, dtypes, errors, frontend, ir, layers, numerics, tensors, workload.
"""
