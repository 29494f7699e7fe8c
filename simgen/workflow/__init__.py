"""Runs as a Snakemake workflow: builds, pieces, results and verdicts as jobs of a cluster.

May import: ask, bundle, compile, errors, ir, machine, resources, running, storage, study, targets,
workload.
"""
