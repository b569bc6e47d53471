"""Rewrites of arrays before fusion.

Files in reading order:
    complex_pairs   complex values become pairs of real values
    host_libraries  calls of compiled libraries on the host: LAPACK, Fourier transforms
    intermediates   oversized intermediates: their component graph and its segments
    axis_maps       which axis of its sources an axis of a value is
    flash           memory-efficient (flash) attention: oversized intermediates in blocks
    conv_padding    convolutions as valid ones: padding and dilation applied beforehand
    layout          memory layouts: panels, padded leading dimensions
    packing         operand packing, GEMV, split-K, two-pass reductions
"""
