"""Bundles and results in the files that other tools read: one module for each format.

May import: reports.
"""

from simgen.ground import plugins

# A format is a module with a class of its own, and a line here.
from simgen.reports.exports import accel_sim as accel_sim
from simgen.reports.exports import chakra as chakra
from simgen.reports.exports import latency as latency
from simgen.reports.exports import scale_sim as scale_sim
from simgen.reports.exports import tables as tables
from simgen.reports.exports.base import EXPORTS as EXPORTS

plugins.load_all("simgen.exports")
