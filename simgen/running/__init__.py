"""Processes: run.sh started, watched, ended and continued; memory and disk; some layers by
themselves; sweeps; what a run will take. Judges nothing.

May import: ask, bundle, compile, tensors, errors, frontend, ir, machine, resources, workload,
storage, targets.
"""
