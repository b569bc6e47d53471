"""Fuzzer of the whole: random programs, run in every way, shrunk and kept when two ways disagree.

Files in reading order:
    values       arrays with a bound of their rounding error, and the evaluation of one line
    steps        one row per operation: its source, and how rounding passes through it
    transforms   one row per transform of a function that the writer writes
    choices      the numbers that a program is drawn from, and how they are shrunk
    programs     the writer: choices decide about steps, NumPy and the oracle give their values
    checks       the ways to run a program, each compared with the values
    keep         tests of programs that failed
    coverage     counts of operations by dtype and transform, and the cells that may be empty
    batches      programs of successive numbers, checked, counted, and shrunk if they fail
    jobs         processes that run batches, replaced when one crashes or hangs
    ledger       the file in which the counts of many runs of one version add up
    __main__     the command: ``python -m tests.fuzz --minutes 2 --seed 7 --jobs 2``
    found        programs that failed once, kept as tests
"""
