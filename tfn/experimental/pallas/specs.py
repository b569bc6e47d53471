"""Divisions of arrays into blocks: `BlockSpec`, `GridSpec`, and kinds of memory."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from tfn import dtypes
from tfn.errors import ArgumentError
from tfn.extend import Shape, ShapeDtypeStruct, frozen


class MemorySpace(enum.Enum):
    """Kinds of memory: accepted, and all the same here."""

    ANY = "any"
    HOST = "host"
    VMEM = "vmem"
    SMEM = "smem"

    def __call__(self, shape: Sequence[int], dtype: Any) -> MemoryRef:
        """A block of this memory, for ``scratch_shapes``."""
        return MemoryRef(tuple(shape), dtypes.canonical(dtype), self)

    __hash__ = object.__hash__


ANY, HOST = MemorySpace.ANY, MemorySpace.HOST
VMEM, SMEM = MemorySpace.VMEM, MemorySpace.SMEM


@frozen
class MemoryRef:
    """The type of a block of memory that a kernel keeps from one point of the grid to the next."""

    shape: Shape
    dtype: Any
    memory_space: Any = None


@frozen
class Blocked:
    """A size of a block, whose index counts blocks."""

    block_size: int


@frozen
class Element:
    """A size of a block, whose index counts elements; with padding (low, high) of the array."""

    block_size: int
    padding: tuple[int, int] = (0, 0)


class Squeezed:
    """The mark of an axis of one element that the kernel does not see."""

    def __repr__(self) -> str:
        return "squeezed"


squeezed = Squeezed()
BlockDim = int | None | Blocked | Element | Squeezed


class Unset:
    """The mark of a spec that was not given."""


no_block_spec = Unset()


@frozen
class Buffered:
    """A number of copies of a block: accepted, and not used."""

    buffer_count: int = 2


@frozen
class CostEstimate:
    """The cost of a kernel: accepted, and not used."""

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0


class CompilerParams:
    """Hints to the compilers of other devices: accepted, and not used."""

    def __init__(self, **hints: Any) -> None:
        vars(self).update(hints)


@frozen
class BlockSpec:
    """The blocks of an array: their shape, and which of them a point of the grid sees.

    Args:
        block_shape: sizes; None or `squeezed` for an axis that the kernel does not see.  None for
            the whole array.
        index_map: from the indices of the grid to those of the block; the first block if None.
        memory_space, pipeline_mode: accepted, and not used.

    Example:
        >>> BlockSpec((8, None), lambda i, j: (i, j)).sizes((16, 3))
        (8, 1)
    """

    block_shape: Sequence[Any] | None = None
    index_map: Callable[..., Any] | None = None
    memory_space: Any = None
    pipeline_mode: Any = None

    def sizes(self, shape: Shape) -> Shape:
        """The sizes of a block of an array of this shape.

        Raises:
            ArgumentError: for a block of another number of axes.
        """
        if self.block_shape is None:
            return shape
        if len(self.block_shape) != len(shape):
            raise ArgumentError(
                "a BlockSpec has a size for each axis of its array",
                got=f"block_shape={tuple(self.block_shape)} for {shape}",
                hint="None is for an axis that the kernel does not see",
            )
        return tuple(_size(n) for n in self.block_shape)

    def gone(self) -> Shape:
        """The axes that the kernel does not see."""
        block = self.block_shape or ()
        return tuple(i for i, n in enumerate(block) if n is None or isinstance(n, Squeezed))

    def padding(self, shape: Shape) -> list[tuple[int, int]]:
        """Elements to add around an array of this shape, so that all blocks fit."""
        pads = []
        for size, n in zip(self.block_shape or shape, shape, strict=True):
            if isinstance(size, Element):
                pads.append(size.padding)
            else:
                pads.append((0, -n % max(_size(size), 1)))
        return pads

    def starts(self, shape: Shape, indices: Sequence[Any], more: Sequence[Any]) -> list[Any]:
        """The first element of the block at a point of the grid.

        Raises:
            ArgumentError: for an index_map that gives another number of indices.
        """
        if self.index_map is None:
            return [0] * len(shape)
        found = self.index_map(*indices, *more)
        listed = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(listed) != len(shape):
            raise ArgumentError(
                "an index_map gives an index for each axis of its array",
                got=f"{len(listed)} for {shape}",
            )
        block = self.block_shape or shape
        return [
            i if isinstance(size, Element) else i * _size(size)
            for i, size in zip(listed, block, strict=True)
        ]


def _size(n: Any) -> int:
    if n is None or isinstance(n, Squeezed):
        return 1
    return int(n.block_size if isinstance(n, (Blocked, Element)) else n)


@frozen
class GridSpec:
    """A grid with the blocks of all arrays: what `pallas_call` takes by name, as one object."""

    grid: Any = ()
    in_specs: Any = no_block_spec
    out_specs: Any = no_block_spec
    scratch_shapes: Any = ()
    num_scalar_prefetch: int = 0


@frozen
class PrefetchScalarGridSpec:
    """A `GridSpec` whose first operands are whole, and given to the index maps too."""

    num_scalar_prefetch: int
    grid: Any = ()
    in_specs: Any = no_block_spec
    out_specs: Any = no_block_spec
    scratch_shapes: Any = ()


@frozen
class Plan:
    """The blocks of one array.

    Attributes:
        spec: how it is divided.
        like: its type.
        pads: elements added around it.
        block: the shape of a block, with the axes that the kernel does not see.
    """

    spec: BlockSpec
    like: ShapeDtypeStruct
    pads: list[tuple[int, int]] = field(default_factory=list)
    block: Shape = ()

    @staticmethod
    def of(spec: Any, like: ShapeDtypeStruct) -> Plan:
        """The blocks of an array of a type."""
        whole = spec if isinstance(spec, BlockSpec) else BlockSpec()
        block = whole.sizes(like.shape)
        return Plan(whole, like, whole.padding(like.shape), block)
