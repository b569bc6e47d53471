"""Loop transformations: schedule primitives, and who chooses them.

Files in reading order:
    loop_nest    Nest: a kernel's loops in order, and the record of what was done to them
    opt_ops      schedule primitives: split, reorder, vectorise, unroll, parallelise
    cost_model   what a loop nest costs: strides of its loads, instructions, bytes
    tensorize    contractions mapped to matrix units
    heuristics   opt-ops chosen by an analytical model of the target
    beam_search  opt-ops found by measuring
"""
