"""simgen: deep-learning workloads for GPU simulators, and a check of what comes back."""

__version__ = "0.1.0"
