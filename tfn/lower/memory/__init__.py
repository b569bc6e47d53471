"""The memory of a program.

Files in reading order:
    schedule  steps of a program: launches, loops, branches, and where their values live
    planner   memory planner: live ranges of all intermediates packed into one arena
    in_place  results in the memory of donated inputs, next carries in that of old ones
"""
