"""Many devices: named axes, functions of parts, and the partitioner.

Files in reading order:
    axes              named axes, of `vmap` and of meshes, while a function is traced
    collective_rules  rules of collectives: derivatives, and what they are over lanes
    vary              values that vary over manual axes, and those that are the same on all devices
    shard_map         functions of the parts that each device holds
    pmap              the same for one element of an axis on each device
    jit_shardings     the shardings that `jit` gives to arguments and results
    halo              windows of a divided axis: rows of neighbours
    across            sorts, running sums, extremes and lookups along a divided axis
    factors           for each op the factors that can be divided, and the costs
    parts             LOCAL: ops that are another one on parts
    propagate         how values would best be divided
    layout            explicit axes: the division of a value as a part of its type
    layout_rules      the type of a result, from those of operands, or an error
    reshard           from one division to another by the cheapest exchanges
    part              the part of a value that a device holds
    partition         from global values to the graphs that every device computes
    divide            a function divided among the devices of a mesh
    report            exchanges of a program, the bytes that they move, its text
    hosts             meshes over many processes: exchanges within them, and messages between them
    stack             the devices of one process as axes of an ordinary program
    program           programs of one device and of all devices of a process
    provenance        which nodes of a program of all devices come from which exchange
"""

from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):  # programs on no mesh of explicit axes need none
    from tfn.transforms.shard import layout_rules as layout_rules
