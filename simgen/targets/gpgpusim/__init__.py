"""GPGPU-Sim: models of NVIDIA GPUs that interpret PTX, functionally or with a timing model.

May import: targets.base, targets.launch_rows, targets.machine_file, targets.plan,
targets.replaced.
"""
