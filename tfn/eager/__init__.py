"""Eager execution: from the arguments of a public function to a program and its result.

Files in reading order:
    operands  arguments become Arrays: dtype promotion, broadcasting, axes, shapes
    arrays    Arrays as they are constructed: on a buffer, or as a value of a trace
    run       programs: lowered, compiled, loaded, cached, executed on the default device
    transfer  device_put, device_get, block_until_ready
    nans      the operation that produced the first NaN, for `config.debug_nans`
"""
