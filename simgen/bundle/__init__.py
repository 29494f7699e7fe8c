"""The folder that holds a workload for its targets, and what comes back into it: planning and
writing it, its manifest, results and their names, the record of a run. Runs nothing.

May import: ask, arrays, compile, dtypes, errors, frontend, ir, layers, machine, metrics, storage,
targets, tensors, workload.
"""
