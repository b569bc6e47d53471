"""Loop transformations: schedule primitives, and the schedulers that choose them.

Files in reading order:
    loop_nest    Nest: a kernel's loops in order, and the opt-ops that were applied to them
    memos        whether the order of loops lets a result hold values that loops share
    grid_opt_ops  those of grids: tiles in local memory, products of warps
    opt_ops      schedule primitives: split, reorder, vectorise, unroll, parallelise
    cost_model   analytical cost model: strides, trip counts, nanoseconds of a loop nest
    sum_order    batch invariance: orders of sums that follow from their lengths alone
    restructuring  index-set splitting, coalescing and interchange of loops, before tiles
    tensorize    tensorization: contractions mapped to matrix units
    byte_products  products of unsigned bytes by signed ones, where instructions are exact
    reduction_lanes  vector axes of reductions, pairs of products, rows as streams
    heuristics   scheduling heuristics: opt-ops by an analytical model of the target
    grid_products  products of matrices on grids: tiles in local memory, of warps and of groups
    grid_heuristics  heuristics for grids: groups and threads
    beam_search  beam search: opt-ops by measuring
"""
