"""The command line: parse, call one function of the rooms below, print. Nothing here computes,
and only this room prints.

May import: ask, bisect, bundle, check, compile, conform, exports, tensors, errors, frontend, ir,
layers, lint, machine, metrics, rates, resources, running, storage, studies, study, targets,
workflow, workload.
"""
