"""MGPUSim: AMD GPUs emulated or timed, by kernels that are rewritten for it.

May import: targets.base, targets.fit, targets.kernargs, targets.launch_rows,
targets.machine_file, targets.own_sources, targets.replaced, targets.shares.
"""
