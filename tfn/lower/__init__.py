"""From a graph to a program: each pass makes the next stage of one language.

Files in reading order:
    kernel      what is handed to hardware: Target, Kernel, Launch, Program
    pipeline    the passes as one table
    tile        the register tile of a contraction
    pairs       complex values as two real ones each
    library     compiled libraries that programs call on the host
    plane       functions of complex numbers, in terms of real ones
    large       values too large to be kept: which they are, and how they hang together
    axes        which axes of its sources an axis of a value is
    strips      such values made and used in strips: attention without its square matrix
    padding     convolutions without padding and without holes
    layout      how values lie in memory; panels
    prepare     what must be said with arrays before the cut: long sums in pieces, panels
    uses        which kernels want a value, and what is worth keeping for them
    cut         where kernels end: barriers on what must, or should, be materialised
    walker      one kernel walked from its outputs: values at indices
    recurrence  small loops inside of one kernel
    ranges      every axis becomes a range, and movement becomes arithmetic on indices
    order       in which order kernels run
    simplify    index arithmetic, gates and values made smaller: laws and folds
    divmod      division and remainder by constants, which reshapes leave behind
    affine      an index as a sum of coefficients times terms
    bounds      between which values an integer lies
    solver      questions about integers that intervals leave open, asked of z3
    prove       that accesses of kernels written by hand are in bounds
    accesses    that every load and store of a kernel's instructions is
    extents     that operands lie within inputs, outputs and the arena
    split       opt-ops: ranges split, merged and given a place
    depends     which ranges a value depends on
    model       what a nest costs
    unit        matrix units, and contractions put on them
    choose      which opt-ops, for which target
    search      better ones, by measuring
    decompose   operations that a target lacks, in terms of those it has
    mathlib     elementary functions from what every processor has
    carry       loops that carry values: reductions and recurrences
    tiles       the same on a unit that multiplies whole matrices
    wanted      sums that a mask hides as a whole, which are not summed up
    scopes      instructions in the loops they belong to
    shuffle     values moved between lanes
    linearize   loops, scalars and vectors in order
    interleave  values that take turns in memory, read and written as whole vectors
    ahead       what is read after a long sum, asked for before it
    render      the text of each target
    byhand      instructions that are written by hand
    keys        bits of keys in the order of their values
    radix       digits of keys: counts, positions, passes
    alike       elements that are equal though they differ, in a sorted row
    sort        the one kernel that is written by hand
    overwrite   what may be written over what was read
    schedule    the steps of a program: kernels, loops and branches, and where their values are
    plan        one arena for all intermediates
    cost        what a function does when it is called: arithmetic, traffic
    print       how each stage looks to a person
"""

from tfn.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.lower import overwrite as overwrite
    from tfn.lower import pipeline as pipeline
