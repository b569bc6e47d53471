"""Inspection of a function: its program at every stage and the reasons, autotuning, proofs.

Files in reading order:
    kernels  kernels of a program as people speak of them: operations, work, bytes
    limits   what one core of the machine does at all
    plots    timeline, memory and roofline as inline SVG
    show    `tfn.show`: a function at any stage of the compiler, as text
    viewer  `tfn.view`: one page with all stages, lines, costs and reasons
    search_tree  the tree of a search as a page, while it grows
    tune    `tfn.tune`: autotuning, a search for faster opt-ops
    cycles  modulo schedules of inner loops, for `tfn.show` and `tfn.tune`
    residuals  what a derivative keeps between forward and backward pass
    verify  `tfn.verify`: proofs that every load and store is in bounds
    shardings  `tfn.debug.visualize_array_sharding`: which device has which part of an array
"""

from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.inspect import kernels as kernels
    from tfn.inspect import limits as limits
    from tfn.inspect import plots as plots
    from tfn.inspect import residuals as residuals
    from tfn.inspect import show as show
