"""How each stage looks to a person.  Nothing here changes a program; `tfn.show` is the door.

Reading order: `expression` (one line of arithmetic), `graph` (a function cut into kernels),
`nest` (a kernel as loops), `instructions` (a kernel in order), `stages` (all kernels of a
function under one heading each), `memory` (launches and the plan of the arena).

Every printer walks its graph without recursion and writes text in proportion to the graph: what
is used twice, and what would make a line too long, gets a name.
"""
