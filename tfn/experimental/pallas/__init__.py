"""Kernels over blocks of arrays: the front of Pallas, as loops over a grid.

Files in reading order:
    refs   references to blocks, and slices of fixed sizes: `Block`, `ds`
    specs  how arrays are divided into blocks: `BlockSpec`, `GridSpec`
    call   `pallas_call`: a kernel run for each point of a grid
    parts  what kernels use: `when`, `loop`, `run_scoped`, `load`, `store`

A kernel is traced once and compiled with the program around it: points of the grid run one after
another.  Those who want vectors and threads by hand write kernels with `tfn.kernel`.
"""

# ruff: noqa: I001  (reading order)
# fmt: off

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.experimental.pallas.refs import (
        Block as Block, Slice as Slice, ds as ds, dslice as dslice,
    )
    from tfn.experimental.pallas.specs import (
        ANY as ANY, HOST as HOST, BlockDim as BlockDim, BlockSpec as BlockSpec, Blocked as Blocked,
        Buffered as Buffered, CompilerParams as CompilerParams, CostEstimate as CostEstimate,
        Element as Element, GridSpec as GridSpec, MemoryRef as MemoryRef,
        MemorySpace as MemorySpace, Squeezed as Squeezed, VMEM as VMEM, SMEM as SMEM,
        PrefetchScalarGridSpec as PrefetchScalarGridSpec, no_block_spec as no_block_spec,
        squeezed as squeezed,
    )
    from tfn.experimental.pallas.call import (
        num_programs as num_programs, pallas_call as pallas_call, program_id as program_id,
    )
    from tfn.experimental.pallas.parts import (
        align_to as align_to, atomic_add as atomic_add, broadcast_to as broadcast_to, cdiv as cdiv,
        debug_print as debug_print, empty as empty, empty_like as empty_like,
        empty_ref_like as empty_ref_like, estimate_cost as estimate_cost, load as load,
        loop as loop, multiple_of as multiple_of, next_power_of_2 as next_power_of_2,
        reciprocal as reciprocal, run_scoped as run_scoped, store as store,
        strides_from_shape as strides_from_shape, swap as swap, when as when,
        with_scoped as with_scoped,
    )
