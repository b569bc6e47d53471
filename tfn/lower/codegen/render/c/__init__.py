"""C renderer: programs as C99, with vectors of GCC and Clang, or loops over lanes elsewhere.

A kernel's text calls *words*, portable functions of vectors such as ``add_f32x16``; a unit defines
the words that it uses.

Files in reading order:
    names       types and literals
    writer      the text of a kernel as it grows
    kernel      a kernel's instructions as a C function, one row per op
    loops       variables of accumulators around loops
    dots        rows of products of bytes
    blocks      blocks of four results, of which loads are shared
    access      rows of loads and stores
    values      rows of arithmetic, comparisons, divisions and casts
    driver      the function that runs a program's kernels
    threads     a thread pool, tile sharing and barriers
    unit        a whole program as one C file
    words       definitions of the words that a text uses
    word        one word: an operation, and the type it works on
    plain       words that are formulas of lanes
    lanes       words that make vectors, shuffle them and take them apart
    memory      words that load and store vectors
    division    quotients where a processor has none
    library     functions that compilers of small processors call
    intrinsics  words for which a processor has an instruction
"""
