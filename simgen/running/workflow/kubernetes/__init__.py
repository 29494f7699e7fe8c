"""A program: Snakemake with its plugin for Kubernetes, as workflows here need it.

May import: running.workflow.engine, running.workflow.executors.
"""
