"""Grids: the parts of the compiler for machines that run groups of threads.

arrays   products, reductions, sorts, scans and scatters for groups of threads
passes   the passes of a grid
"""

from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.lower.grids import passes as passes
