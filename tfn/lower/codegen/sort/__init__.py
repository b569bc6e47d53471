"""Radix sort and sorting networks, written with the IR builder.

Files in reading order:
    key_encoding  sortable keys: bits that compare as the values do
    radix         one pass: histogram, prefix sum, scatter
    ties          stable order among keys that compare equal but differ in bits
    plan          which algorithm sorts the rows, by its estimated time
    words         what is sorted: a key above, a payload below
    network       rows side by side, in the lanes of vectors
    row_merges    one row by bitonic merges of vectors
    row_sort      one row by insertion, by digits (LSD), or by buckets (MSD)
    sort          the kernel: rows, shared among threads, each by its plan
    group_sort    rows by groups of threads: networks and counting in local memory
"""
