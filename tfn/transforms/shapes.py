"""The type of an array, for tracing without data: `ShapeDtypeStruct`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any

from tfn._support.validate import shown, size_limit
from tfn.dtypes import INEXACT, DType, DTypeLike, canonical
from tfn.errors import ArgumentError, ShapeError
from tfn.trace import runtime
from tfn.trace.aval import Kind, kind_of
from tfn.trace.op import Shape
from tfn.transforms.shard import layout, vary


@dataclass(frozen=True)
class ShapeDtypeStruct:
    """Shape, dtype, weakness and sharding of an array, without its elements.

    A size may be symbolic, for those who export; see `tfn.export.symbolic_shape`.

    Attributes:
        shape: sizes of the axes.
        dtype: of the elements.
        weak_type: whether the dtype gives way to others.
        vma: inside of `shard_map`, the manual axes over which the value varies.
        sharding: the devices that it is committed to; None for an array that is not.

    Example:
        >>> ShapeDtypeStruct((2, 3), "float32").size
        6
    """

    shape: Shape
    dtype: DType
    weak_type: bool = False
    vma: frozenset[Any] = frozenset()
    sharding: Any = field(default=None, repr=False)

    if TYPE_CHECKING:  # a name of a dtype will do for one

        def __init__(
            self,
            shape: Sequence[int],
            dtype: DTypeLike,
            weak_type: bool = False,
            vma: frozenset[Any] = frozenset(),
            sharding: Any = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.dtype is None:
            raise ArgumentError(
                "ShapeDtypeStruct needs a dtype", got="dtype=None", hint="write 'float32'"
            )
        dtype = canonical(self.dtype)
        try:
            shape = tuple([n if hasattr(n, "symbols") else index(n) for n in self.shape])
        except TypeError:
            raise ShapeError(
                "a shape is a tuple of integers",
                got=f"shape={shown(self.shape)}",
                hint="write (3,) for a vector, () for a scalar",
            ) from None
        sizes = [n for n in shape if isinstance(n, int)]
        if sizes:
            if min(sizes) < 0:
                raise ShapeError(
                    "a shape has sizes that are not negative",
                    got=f"shape={shape}",
                    hint="sizes count from 0",
                )
            size_limit("ShapeDtypeStruct", sizes, dtype.itemsize)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtype)

    @staticmethod
    def of(value: runtime.Value | ShapeDtypeStruct) -> ShapeDtypeStruct:
        """The type of a Value."""
        vma = vary.of(value) if vary.is_checked() else vary.NONE
        sharding = value.kind.sharding if value.kind else None
        if sharding is None and (explicit := layout.of(value)) is not None:
            sharding = explicit.sharding
        return ShapeDtypeStruct(value.shape, value.dtype, value.weak_type, vma, sharding)

    @staticmethod
    def like(x: object) -> ShapeDtypeStruct:
        """The type of an array, of one of NumPy, or of a number.

        Example:
            >>> import numpy as np
            >>> ShapeDtypeStruct.like(np.ones((2, 3), np.int8)).shape
            (2, 3)
        """
        if isinstance(x, ShapeDtypeStruct):
            return x
        return ShapeDtypeStruct.of(runtime.installed().asarray(x))

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """The type with some of its attributes changed.

        Raises:
            ArgumentError: for an attribute that it does not have.

        Example:
            >>> ShapeDtypeStruct((2, 3), "float32").update(shape=(5,)).shape
            (5,)
        """
        unknown = changes.keys() - self.__dataclass_fields__.keys()
        if unknown:
            raise ArgumentError(
                "a ShapeDtypeStruct has no such attribute",
                got=", ".join(sorted(unknown)),
                hint="it has " + ", ".join(self.__dataclass_fields__),
            )
        return replace(self, **changes)

    def with_layout(self, divided: layout.Layout | None) -> ShapeDtypeStruct:
        """The type of an array that is divided over explicit axes of a mesh."""
        return replace(self, sharding=None if divided is None else divided.sharding)

    def __str__(self) -> str:
        """The type as ``f32[8@x,4]``, with the explicit axes of a mesh that divide it."""
        return layout.show(self, layout.of(self))

    @property
    def kind(self) -> Kind:
        """Shape, dtype and sharding as one object."""
        return kind_of(self.shape, self.dtype, self.sharding)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def floating(self) -> bool:
        """Whether such arrays have derivatives."""
        return self.dtype in INEXACT
