"""Targets and launchers that nobody has seen run here: they need ROCm, a disk image or AMD
hardware.

May import: targets.base, targets.fit, targets.gem5, targets.kernargs,
targets.launch_rows, targets.own_sources.
"""
