"""A machine as data.

Files in reading order:
    grid           Grid: threads of a group, local memory, registers of a GPU
    target         Target: triple, features, vector registers, sizes of caches
    register_tile  register blocking: the tile of a contraction that fits the vector registers
    matrix_units   matrix units: AMX tiles, and dot products of pairs (VNNI, BF16)
"""
