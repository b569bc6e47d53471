"""Array-level rewrites before fusion: narrow and complex types, flash attention, packing, split-K.

Files in reading order:
    narrow_types     narrow lowering: 8-bit floats and 4-bit integers become bytes
    complex_pairs    complex lowering: complex values become pairs of real values
    pair_products    complex products as one real contraction
    fourier          Fourier transforms as products with matrices, by mixed radix or Bluestein
    constants        tables: costly values that depend on no argument, computed at loading
    host_libraries   calls of compiled libraries on the host: LAPACK, Fourier transforms
    intermediates    oversized intermediates: their component graph and its segments
    flash            memory-efficient (flash) attention: oversized intermediates in blocks
    channels_last    images between convolutions in the order of these
    byte_tables      functions of a quantized value as tables
    conv_padding     convolution padding as a value; polyphase decomposition of dilated inputs
    conv_product     convolutions of integers as products, for units that multiply pairs
    winograd         convolutions of integers by 3 x 3 with fewer products
    masked_update    selects between an update and what it updates, as updates of some points
    few_bins         scatters into a few elements, as reductions
    layout           memory layouts: strides, panels, padded leading dimensions
    wide_operands    operands of 16-bit floats in 32 bits, for products
    unit_operands    operands of the matrix units of grids: tf32, rows along the sum
    split_reduction  split-K, two-pass reductions, concatenation trees
    block_scan       scans of associative functions in blocks, for grids
    partial_sort     the largest elements of rows, selected or by a sort
    packing          operand packing for GEMM and matrix units, GEMV; the pass over a function
"""
