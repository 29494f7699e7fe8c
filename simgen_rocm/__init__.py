"""What needs ROCm, a disk image or AMD hardware, and was never seen running: the target `hip`,
three launchers of gem5, and what MIOpen asks its kernel database for. Stands on simgen, which
imports nothing of it.
"""
