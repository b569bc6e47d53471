"""Intermediate representation (IR): graphs of operations on arrays, and their meaning.

Files in reading order:
    op              the closed list of operations, one meaning each
    argument        static arguments of operations
    grid_argument   those of grids: local memory, copies into it, matrix units of warps
    axes            which axes of operands become axes of the result, and ops on parts of them
    regions         how operands reach the functions of loops, branches and calls; types of results
    matrix_tiles    matrices in the registers of a matrix unit
    type_checks     checks of operand types, with the errors that users see
    windows         type rules of contractions, convolutions, gathers, scatters
    primitives      per operation: what it takes, what it gives, in which operands it is linear
    source_lines    the line of the user's code that recorded a node, tracked on demand
    uop             the node: immutable, hash-consed, typed; walks and substitution
    aval            abstract values: shape, dtype and sharding as one interned object
    sharding        ops of many devices: axes of a mesh, collectives, partitions
    processes       processes that work together, and the blocks of a mesh that they hold
    mesh            meshes: devices in a grid with named axes
    named_sharding  shardings: the division of an array among the devices of a mesh
    place           the devices of a call: those that its operands are committed to
    build           node constructors
    digest          content hash of a graph, the same in every process
    jaxpr           closed functions, and how they print
    loop_cleanup    common-subexpression and dead-code elimination of loops and branches
    inline          operations replaced by their meaning, in nested functions too
    traces          running traces: they record operations on abstract values
    runtime         runtime interface: conversion, execution, compilation, installed from above
    bind            dispatch: record an operation in a trace, or execute it at once
    effects         effect tokens: side effects ordered by data dependence
    refs            references: mutable arrays, as state that traces take and return
    concretization  errors where Python needs a value that is not known while tracing
    casts           casts of NumPy arrays, and narrow types computed in wider ones
    oracle          reference semantics: the meaning of every operation on plain NumPy
    interpreter     reference interpreter of kernels, on plain NumPy too
    banks           banks of local memory: how often a warp waits for words of one
    spec            graph verifier: the ops that are legal at each stage
    records         what passes did and why, collected on demand
    pattern         rewrite laws as data: holes, matching, printing
    rewrite         rewrite driver: applies laws and named folds to a fixed point
"""
