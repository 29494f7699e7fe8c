"""Where two targets first differ: launch, kernel, instruction, lane.

`replay` runs some launches of a workload on a target, from given tensors; `instrumented` rewrites
a kernel so that it stores its registers at a chosen moment of a chosen run through its code;
`states` compares what two targets stored, `searching` goes from the workload to the instruction,
and `telling` says it, with a reproducer.
"""
