"""What results show: the report page, figures, correlation of targets, the trace database.

May import: ask, bundle, compile, errors, frontend, ir, machine, metrics, rates.keeping, resources,
storage, workload.
"""
