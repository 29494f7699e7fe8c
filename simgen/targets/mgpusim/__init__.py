"""MGPUSim: AMD GPUs emulated or timed, by kernels that are rewritten for it.

May import: targets.base, targets.fit, targets.launch_rows, targets.machine_file.
"""
