"""Lowering: a Jaxpr becomes a Program of kernels for a target.

The rooms are in the order in which a function passes through them:

    passes    the passes as one table, from a graph to instructions
    small     passes for the least code and memory
    grids     the passes of machines that run groups of threads
    languages the text and the passes of each architecture
    pipeline  the driver: a function through the passes to a Program
    program   the data handed to hardware: Kernel, Launch, Program
    target    the data about a machine: vector widths, caches, register tiles
    graph     rewrites of arrays before fusion: flash attention, packing, complex pairs
    fuse      fusion: which values are materialised, and kernels as loops over indices
    index     integer analysis: affine forms, intervals, laws, z3
    loops     schedule primitives (opt-ops), cost model, heuristics, beam search
    math      elementary functions, and what a target has no instruction for
    codegen   loops to vector instructions to text; radix sort; renderers
    pack      modulo schedules of inner loops: slots, latencies, the shortest interval by z3
    memory    steps of a program, live ranges, one arena, in-place results
    report    pictures of each stage, costs, bounds proofs
"""

from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.lower import pipeline as pipeline
    from tfn.lower import small as small
    from tfn.lower.memory import in_place as in_place
