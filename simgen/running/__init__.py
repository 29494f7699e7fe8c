"""Processes: run.sh started, watched, ended and continued; memory and disk; some layers by
themselves; sweeps. Judges nothing.

May import: bundle, compile, tensors, errors, frontend, ir, machine, workload, storage, targets.
"""
