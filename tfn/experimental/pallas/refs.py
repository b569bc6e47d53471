"""References to blocks of arrays, and slices of fixed sizes from starts that may be traced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfn import Ref, lax, new_ref
from tfn import numpy as tnp
from tfn.errors import OutOfBoundsError
from tfn.extend import Shape, frozen
from tfn.trace.refs import is_whole


@frozen
class Slice:
    """Indices start, start + stride, ... of a fixed number, from a start that may be traced.

    Example:
        >>> Slice(3, 2).indices().tolist()
        [3, 4]
    """

    start: Any
    size: int
    stride: int = 1

    def indices(self) -> Any:
        """The indices."""
        return tnp.asarray(self.start) + tnp.arange(self.size) * self.stride


def dslice(start: Any, size: int | None = None, stride: int | None = None) -> Slice:
    """A `Slice`: ``ref[dslice(start, size)]``; of one number, from the first element.

    Args:
        start: the first index, which may be traced.
        size: the number of indices; None if `start` is meant as that.
        stride: their distance; 1 if None.

    Example:
        >>> dslice(4), dslice(2, 3)
        (Slice(start=0, size=4, stride=1), Slice(start=2, size=3, stride=1))
    """
    if size is None:
        start, size = 0, start
    return Slice(start, size, 1 if stride is None else stride)


ds = dslice


class Block:
    """A block of an array in a kernel: read and written by index, by `Slice`, or as a whole.

    Example:
        >>> block = Block(tnp.arange(6.0))
        >>> block[ds(tnp.asarray(2), 3)] = 10 * block[ds(0, 3)]
        >>> block[...].tolist()
        [0.0, 1.0, 0.0, 10.0, 20.0, 5.0]
    """

    __slots__ = ("ref",)

    def __init__(self, value: Any) -> None:
        self.ref = value if isinstance(value, Ref) else new_ref(value)

    shape: Shape = property(lambda self: self.ref.shape)  # type: ignore[assignment]
    dtype: Any = property(lambda self: self.ref.dtype)
    ndim: int = property(lambda self: self.ref.ndim)  # type: ignore[assignment]
    size: int = property(lambda self: self.ref.size)  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> Any:
        plan = planned(self.shape, index)
        if plan is None:
            return self.ref[index]
        if isinstance(plan, Window):
            return plan.read(self.ref[...])
        return self.ref[...][plan]

    def __setitem__(self, index: Any, value: Any) -> None:
        plan = planned(self.shape, index)
        if plan is None:
            self.ref[index] = tnp.asarray(value).astype(self.dtype)
            return
        now = self.ref[...]
        value = tnp.asarray(value).astype(self.dtype)
        new = plan.write(now, value) if isinstance(plan, Window) else now.at[plan].set(value)
        self.ref[...] = new

    def set(self, value: Any) -> None:
        """Write all elements."""
        self[...] = value

    def get(self) -> Any:
        """All elements."""
        return self[...]

    @property
    def at(self) -> At:
        """``block.at[index]`` is a view."""
        return At(self)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self[...])

    def __repr__(self) -> str:
        return f"Block({self.dtype.name}{list(self.shape)})"


class At:
    """The views of a block, by index."""

    __slots__ = ("_block",)
    __iter__ = None  # with `__getitem__` alone iteration would never end

    def __init__(self, block: Block | BlockView) -> None:
        self._block = block

    def __getitem__(self, index: Any) -> BlockView:
        return BlockView(self._block, index)


class BlockView:
    """A part of a block, which is read and written in place."""

    __slots__ = ("_block", "_index")

    def __init__(self, block: Block | BlockView, index: Any) -> None:
        self._block, self._index = block, index

    shape: Shape = property(lambda self: self[...].shape)  # type: ignore[assignment]
    dtype: Any = property(lambda self: self._block.dtype)

    def __iter__(self) -> Iterator[Any]:
        return iter(self[...])

    def __getitem__(self, index: Any) -> Any:
        part = self._block[self._index]
        return part if is_whole(index) else Block(part)[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if is_whole(index):
            self._block[self._index] = value
            return
        part = Block(self._block[self._index])
        part[index] = value
        self._block[self._index] = part[...]

    @property
    def at(self) -> At:
        """Views of this view."""
        return At(self)


@frozen
class Window:
    """A box of an array: starts and sizes along its axes, of which some vanish.

    Attributes:
        starts: which may be traced.
        sizes: of the box.
        gone: the axes that were indexed by a number.
    """

    starts: tuple[Any, ...]
    sizes: Shape
    gone: Shape

    def read(self, x: Any) -> Any:
        """The elements of the box."""
        return lax.squeeze(lax.dynamic_slice(x, self.starts, self.sizes), self.gone)

    def write(self, x: Any, value: Any) -> Any:
        """The array with other elements in the box."""
        thin = [n for axis, n in enumerate(self.sizes) if axis not in self.gone]
        box = tnp.broadcast_to(value, tuple(thin)).reshape(self.sizes)
        return lax.dynamic_update_slice(x, box, self.starts)


def planned(shape: Shape, index: Any) -> Window | tuple[Any, ...] | None:
    """An index with a `Slice` as a box, or as arrays of indices; None for any other index.

    Raises:
        OutOfBoundsError: for a slice that is longer than its axis.
    """
    items = list(index) if isinstance(index, tuple) else [index]
    if not any(isinstance(x, Slice) for x in items):
        return None
    dots = [i for i, x in enumerate(items) if x is ...]
    for at in dots:
        items[at : at + 1] = [slice(None)] * (len(shape) - len(items) + 1)
    items += [slice(None)] * (len(shape) - len(items))
    starts: list[Any] = []
    sizes: list[int] = []
    gone: list[int] = []
    for axis, (item, n) in enumerate(zip(items, shape, strict=True)):
        if isinstance(item, slice):
            first, stop, step = item.indices(n)
            item = Slice(first, len(range(first, stop, step)), step)
        elif not isinstance(item, Slice):
            if tnp.ndim(item):
                return _mesh(shape, items)
            gone.append(axis)
            item = Slice(item, 1)
        if item.size > n:
            raise OutOfBoundsError(
                f"a slice is longer than axis {axis} of its block", got=f"{item.size} of {n}"
            )
        if item.stride != 1:
            return _mesh(shape, items)
        starts.append(item.start)
        sizes.append(item.size)
    return Window(tuple(starts), tuple(sizes), tuple(gone))


def _mesh(shape: Shape, items: list[Any]) -> tuple[Any, ...]:
    """Arrays of indices, of which each but those of numbers has an axis of its own."""
    wide = sum(isinstance(x, (Slice, slice)) or tnp.ndim(x) > 0 for x in items)
    found, at = [], 0
    for item, n in zip(items, shape, strict=True):
        if isinstance(item, slice):
            item = Slice(item.indices(n)[0], len(range(*item.indices(n))), item.indices(n)[2])
        line = item.indices() if isinstance(item, Slice) else tnp.asarray(item)
        if line.ndim:
            line = line.reshape([-1 if axis == at else 1 for axis in range(wide)])
            at += 1
        found.append(line)
    return tuple(found)
