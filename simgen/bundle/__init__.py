"""The folder that holds a workload for its targets, and what comes back into it: planning and
writing it, its manifest, results and their names, the record of a run. Runs nothing.

May import: ask, errors, frontend, ground, isa.toolchain, kernels, layers, targets, tensors,
workload.
"""
