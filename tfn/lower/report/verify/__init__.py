"""Bounds verification.

Files in reading order:
    kernels   custom kernels: indices in bounds, each output element written exactly once
    accesses  generated kernels: every load and store in bounds
    operands  operands of every step within inputs, outputs and the arena
"""
