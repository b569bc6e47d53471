"""Fusion: which values are materialised, and each kernel as loops over indices.

Files in reading order:
    analysis      fusion analysis: which kernels read a value, and what recomputing it costs
    boundaries    kernel boundaries: a GBARRIER on each value that must or should be materialised
    indexing      a kernel's values inlined at indices, from its outputs
    inner_loops   scans fused into one kernel: carries stay in registers
    kernel_order  memory-aware order of kernels
    ranges        every axis becomes a RANGE, movement becomes index arithmetic
"""
