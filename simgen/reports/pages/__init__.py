"""What results show: the report page, figures, correlation of targets, the trace database.

May import: reports.rates.keeping.
"""
