"""Fusion: which values are materialised, and each kernel as loops over indices.

Files in reading order:
    grid_select   the largest elements of rows by their threshold, for grids
    grid_sort     long rows sorted by digits, for grids
    grid_scatter  scatters of many updates after a sort of them, for grids
    sharing       sorts and associative scans as kernels of their own
    analysis      fusion analysis: the kernels that read a value, access maps, recomputation cost
    policies      materialisation policies: the values that are worth a buffer
    boundaries    kernel boundaries: a GBARRIER on each value that must or should be materialised
    prelude       kernels of captured arrays alone, which run once
    indexing      indexing: a kernel's values inlined at indices, from its outputs
    kept_rows     expensive values that loops over a row share: kept in a result meanwhile
    inner_loops   inner loops: pointwise scans and while loops fused into one kernel
    kernel_order  memory-aware kernel order
    shared_constants  kernels that differ in numbers alone become one, which loads them
    ranges        kernels over ranges: every axis a RANGE, movement as index arithmetic
"""
