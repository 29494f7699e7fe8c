"""The folder that holds a workload for its targets, and what comes back into it: planning and
writing it, its manifest, results and their names, the record of a run. Runs nothing.

May import: arrays, compile, tensors, errors, frontend, ir, layers, workload, storage, targets.
"""
