"""What results show: pages and the trace database (pages/), studies of publications (studies/),
files of other tools (exports/), measured against configured rates (rates/).

May import: ask, bundle, errors, frontend, ground, kernels, running, targets, verdict, workload.
"""
