"""Target: the machine that code is generated for, as data that is passed down.

The compiler asks no device, so a program for any target can be compiled on any machine.
"""

from __future__ import annotations

from tfn._support.frozen import frozen
from tfn.dtypes import DType
from tfn.lower.target.grid import Grid
from tfn.trace.op import Op


@frozen
class Target:
    """A machine that code is generated for; it is part of the keys of all caches.

    Attributes:
        triple, cpu, features: as LLVM names them; the triple begins with the key of the target's
            language and passes (`lower.languages`).
        vector_bytes: the width of a vector register.
        vector_registers: the number of vector registers.
        l1_bytes, l2_bytes, l3_bytes: sizes of the data caches; the last is shared by all cores.
        lacks: those of FLOOR, CEIL, ROUND, FMA, LDEXP and MMA that it has no instruction for, or
            none that the process may use; CAST, if no vectors of floats become 64-bit integers.
        grid: of a machine that runs groups of threads; None for cores with vectors.
        scalars: dtypes that no vector register holds: kernels with values of one are not
            vectorised.
        lane_bytes: the narrowest lane: a vector of narrower elements fills a part of a register
            only.  Whole registers of them need conversions to several, which LLVM does well where
            it knows no vectors of a part.
        batch_invariant: whether the order in which a sum is added follows from the lengths of that
            sum alone, never from how many sums there are: see `tfn.lower.loops.sum_order`.
        address_bits: the width of a pointer.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int = 16
    vector_registers: int = 16
    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10
    l3_bytes: int = 8 << 20
    lacks: frozenset[Op] = frozenset({Op.LDEXP})
    grid: Grid | None = None
    scalars: frozenset[DType] = frozenset()
    lane_bytes: int = 4
    batch_invariant: bool = False
    address_bits: int = 64


def grid_of(target: Target) -> Grid:
    """The grid of a target that has one."""
    assert target.grid is not None, "a target that runs groups of threads"
    return target.grid
