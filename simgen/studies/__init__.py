"""Whole studies of publications: which runs they need, on which targets, and their figures.

May import: ask, bundle, check, compile, errors, frontend, ir, metrics, running, storage, study,
targets, workload.
"""

from simgen.studies import dnnmark as dnnmark
from simgen.studies import icpe18 as icpe18
from simgen.studies import workloads as workloads
from simgen.studies.definition import STUDIES as STUDIES
