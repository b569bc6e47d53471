"""The one language of the house: graphs of operations on arrays, and what they mean.

Files in reading order:
    op              the closed list of operations, one meaning each
    argument        what operations must know beside their operands
    regions         types of what has several results: loops, branches, calls
    matrix_tiles    matrices in the registers of a matrix unit
    type_checks  checks of operand types, with the errors that users see
    windows      type rules of contractions, convolutions, gathers, scatters
    primitives      per operation: what it takes, what it gives, in which operands it is linear
    source_lines    which line of the user made a node, while somebody wants to know
    uop             the node: immutable, made once, typed at birth; walks and substitution
    aval            shape and dtype as one object: what caches ask first
    build           nodes made the convenient way
    digest          a name for a graph that is the same in every process
    jaxpr           closed functions, and how they print
    loop_cleanup    loops and branches without what nobody uses
    inline          operations replaced by what they mean, in nested functions too
    bind            execute at once, or record: the one decision
    effects         what a program does beside computing its results
    concretization  what to say when Python needs a value that is not there
    oracle          the meaning of every operation on plain NumPy
    interpreter     the meaning of kernels, on plain NumPy too
    spec            which graphs are legal at which stage
    pattern         laws as data: holes, matching, printing
    rewrite         the driver that applies laws and named folds
"""
