"""Code generation: loop nests to vector instructions to text.

Files in reading order:
    loop_scopes         loop-invariant placement: the innermost loop that an instruction depends on
    coordinates         iteration state: values of ranges, trip counts, peeling
    emitter             instruction selection: scalars, vectors, addresses, loads, stores
    selected_loads      of two loads that a condition chooses between, one is done
    lane_parts          vectors of several short blocks, each loaded as it lies
    pairs               values of neighbours side by side, for products that are added in a lane
    reductions          reductions, by accumulators
    recurrence          loops that carry values, several iterations at a time
    amx                 contractions on a matrix unit (AMX)
    warp_product        contractions on the matrix unit of warps
    group_product       contractions on the matrix unit of four warps
    staged_tiles        tiles in the local memory of a group, one or a ring of them
    linearize           a nest becomes a list of instructions
    group_scan          prefix sums over the threads of a group
    grid                a nest becomes the instructions of one thread of a grid
    masked_tiles        tiles of a reduction that a mask hides entirely are skipped
    register_transpose  transposes of vectors in registers, by shuffles
    deinterleave        interleaved accesses (strides 2 to 4) as whole vectors and shuffles
    partial_vectors     the first lanes of a vector as smaller vectors, where masks are slow
    narrow_indices      indices of 32 bits
    legalize            operations that no language has, as operations that all have
    prefetch            prefetches of loads that follow a long reduction
    builder             IR builder, for kernels that are not loop nests
    sort                radix sort
    render              text of each target: LLVM IR, C
"""
