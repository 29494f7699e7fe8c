"""The commands: parse options, call the stages, print. Nothing here computes.

Stages are imported inside the functions, so that `simgen --help` and a warm build start fast.
"""
