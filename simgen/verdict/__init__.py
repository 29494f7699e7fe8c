"""Whether it computed the right thing: two tensors, a step of one GPU or several, whole results,
and what that comes to in words.

May import: ask, bundle, errors, frontend, ground, layers, tensors, workload.
"""
