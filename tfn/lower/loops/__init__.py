"""Loop transformations: schedule primitives, and who chooses them.

Files in reading order:
    opt_ops      schedule primitives: split, reorder, vectorise, unroll, parallelise
    cost_model   what a loop nest costs: strides of its loads, instructions, bytes
    tensorize    contractions mapped to matrix units
    heuristics   opt-ops chosen by an analytical model of the target
    beam_search  opt-ops found by measuring
"""
