"""Eager execution: from the arguments of a public function to a program and its result.

Files in reading order:
    operands  arguments become Arrays: dtype promotion, broadcasting, axes, shapes
    arrays    Arrays as they are constructed: on a buffer, or as a value of a trace
    operators what a device learns from an operator, so as to run it natively
    platforms the devices by name
    registry  the devices of this process, each made at its first use
    memories  devices with memories of their own: places, parts of arrays, moves
    program_cache  lowered programs on disk
    loading   programs: lowered, compiled and loaded once
    conversion  Arrays from NumPy arrays and numbers, and back
    constants operations on arrays that a trace captures, by NumPy
    run       ops and programs executed: the runtime that the language asks
    placement programs where their arguments are: over the devices of a mesh, or on one of them
    stacks    the buffer of a divided array: the stack of its parts
    devices   the devices of this process, and the default one
    device_memory  live arrays, and the memory of each device
    shards    the parts of arrays that are divided among devices
    transfer  device_put, device_get, block_until_ready
    nans      the operation that produced the first NaN, for `config.debug_nans`
"""

from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):  # an import needs no compiler, and programs on one device no placement
    from tfn.eager import memories as memories
    from tfn.eager import placement as placement
    from tfn.eager import program_cache as program_cache
    from tfn.eager import stacks as stacks
    from tfn.transforms.shard import layout as layout
    from tfn.transforms.shard import layout_rules as layout_rules
