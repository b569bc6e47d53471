"""Fuzzer of the whole: random programs, run in every way, shrunk and kept when two ways disagree.

Files in reading order:
    values       arrays with a bound of their rounding error, and the evaluation of one line
    steps        one row per operation: its source, and how rounding passes through it
    transforms   one row per transform of a function that the writer writes
    programs     the writer: hypothesis draws steps, NumPy and the oracle give their values
    checks       the ways to run a program, each compared with the values
    keep         tests of programs that failed
    batches      programs drawn from one seed, up to the first that fails
    coverage     counts of operations by dtype and transform, and the cells that may be empty
    __main__     the command: ``python -m tests.fuzz --minutes 2 --seed 7 --jobs 2``
    found        programs that failed once, kept as tests
"""
