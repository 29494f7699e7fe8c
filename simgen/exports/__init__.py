"""Bundles and results in the files that other tools read: one module for each format.

May import: bundle, errors, frontend, ir, metrics, storage, targets, workload.
"""

# A format is a module with a class of its own, and a line here.
from simgen.exports import accel_sim as accel_sim
from simgen.exports import chakra as chakra
from simgen.exports import latency as latency
from simgen.exports import scale_sim as scale_sim
from simgen.exports import tables as tables
from simgen.exports.base import EXPORTS as EXPORTS
