"""Code generation: loop nests to vector instructions to text.

Files in reading order:
    linearize           a nest becomes a list of instructions: loops, scalars, vectors in order
    reductions          reductions and loop-carried values
    masked_tiles        tiles of a reduction that a mask hides entirely are skipped
    loop_scopes         loop-invariant placement: the loop that each instruction belongs to
    register_transpose  transposes of vectors in registers, by shuffles
    deinterleave        interleaved (stride-2, stride-4) accesses as whole vectors and shuffles
    amx                 contractions on a unit that multiplies matrices (AMX)
    prefetch            prefetches of what is read after a long reduction
    builder             an IR builder for instructions written by hand
    sort                radix sort
    render              text of each target: LLVM IR, C
"""
