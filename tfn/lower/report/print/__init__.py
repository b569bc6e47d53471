"""Pretty-printers: the program at each stage, as text, for `tfn.show`; nothing here changes one.

Files in reading order:
    expression    one line of arithmetic
    graph         a function as the equations of its kernels
    nest          a kernel as loops
    instructions  a kernel as instructions in order
    stages        all kernels of a function, one heading each
    memory        launches, live ranges and offsets in the arena
    notebook      HTML: stages to be unfolded, and the arena as a picture

Every printer walks its graph without recursion and writes text in proportion to the graph: a value
that is used twice, or that would make a line too long, gets a name.
"""
