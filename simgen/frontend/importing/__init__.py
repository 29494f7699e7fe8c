"""Models of frameworks (ONNX) as networks: the file, what its operators are given and give, and
the layers that compute them. One file for each family of operators.

May import: frontend.config.
"""
