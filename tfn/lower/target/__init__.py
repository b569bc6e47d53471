"""A machine as data.

Files in reading order:
    target         Target: triple, features, vector registers, sizes of caches
    register_tile  register blocking: the tile of a contraction that fits the vector registers
    matrix_units   matrix units: AMX tiles, and dot products of pairs (VNNI, BF16)
"""
