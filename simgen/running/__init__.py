"""Processes: run.sh started, watched, ended and continued; memory and disk; some layers by
themselves; sweeps; what a run will take. Judges nothing.

May import: ask, bundle, errors, frontend, ground, isa.child, kernels, targets, tensors, workload.
"""
