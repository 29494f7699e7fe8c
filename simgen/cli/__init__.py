"""The command line: parse, call one function of the rooms below, print. Nothing here computes,
and only this room prints.

May import: ask, bundle, errors, frontend, ground, isa, kernels, layers, reports,
running, targets, tensors, verdict, workload.
"""
