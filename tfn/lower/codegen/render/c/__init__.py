"""Text of programs in C99: GCC's and Clang's vectors where they are, loops over lanes elsewhere.

In reading order:
    names: types, and literals.
    writer: the text of a kernel as it grows.
    kernel: a kernel's instructions as a C function, one row per op.
    access: rows of loads and stores.
    values: rows of what makes values.
    driver: the function that runs a program's kernels.
    threads: a program shared by several threads.
    unit: a whole program as one C file.
    words: what the words of kernels mean, as ``add_f32x16``.
    word: a word: an operation, and the type it works on.
    plain: words that are formulas of lanes.
    lanes: words that make vectors and take them apart.
    memory: words that load and store vectors.
    intrinsics: words for which a processor has an instruction.
"""
