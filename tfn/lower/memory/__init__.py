"""The memory of a program.

Files in reading order:
    in_place  donation: results over donated inputs, next carries over present ones
    planner   memory planner: views of values, live ranges packed into one arena
    barriers  hazards, barriers between steps, and steps that one thread runs
    coalescing  updates of values in the memory of these
    overlap   exchanges between processes beside kernels
    schedule  steps of a program: launches, loops, branches, and where their values live
    program_rows  scheduled programs as plain data
"""
