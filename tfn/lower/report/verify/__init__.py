"""Bounds verification.

Files in reading order:
    kernels   custom kernels: reads in bounds, each output element written once
    accesses  generated kernels: every load and store in bounds
    operands  operands of every step lie within inputs, outputs and the arena
"""
