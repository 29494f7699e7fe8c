"""A program: Snakemake with its plugin for Kubernetes, as workflows here need it.

May import: errors, workflow.engine, workflow.executors.
"""
