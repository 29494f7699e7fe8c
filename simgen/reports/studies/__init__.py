"""Whole studies of publications: which runs they need, on which targets, and their figures.

May import: reports.pages.
"""

from simgen.reports.studies import dnnmark as dnnmark
from simgen.reports.studies import icpe18 as icpe18
from simgen.reports.studies import workloads as workloads
from simgen.reports.studies.definition import STUDIES as STUDIES
