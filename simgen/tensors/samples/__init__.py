"""Files of samples to train with: images with labels, texts, pairs of sentences; read, made, and
given to the inputs of a workload.

May import: tensors.own_values.
"""
