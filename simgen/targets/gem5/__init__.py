"""gem5's GPU model in syscall emulation: command lines by version, launchers, statistics.

May import: targets.base, targets.fit, targets.kernargs, targets.own_sources, targets.plan,
targets.replaced.
"""
