"""Runs as a Snakemake workflow: builds, pieces, results and verdicts as jobs of a cluster.

May import: running.
"""
