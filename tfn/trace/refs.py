"""References: mutable arrays, `new_ref`, that any function may read and write.

Nothing changes in a program.  A reference is a cell of each trace that uses it (`trace.effects`):
the trace takes its value as one more input and returns the last one as one more result, a loop
carries it, a branch passes it on; where the function was called, the result is written back::

    total = new_ref(0.0)                        jaxpr: (total, x) -> (total + x, x * 2)
    def f(x):                                   the loop over f carries total
        total[...] += x
        return x * 2

A reference may be an argument, as if the function had closed over it, and a result of the function
that made it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from tfn import tree
from tfn._support.validate import shown
from tfn.dtypes import promote
from tfn.errors import ArgumentError, DTypeError, UnexpectedTracerError
from tfn.trace import bind, effects, runtime, traces
from tfn.trace.op import Shape


class Slot:
    """The cell of a reference: a value, in the trace in which the reference was made."""

    __slots__ = ("home", "value")

    def __init__(self, value: Any) -> None:
        running = traces.running()
        self.home = running[-1] if running else None
        self.value = value

    @property
    def lasting(self) -> bool:
        """Whether it outlives all traces."""
        return self.home is None

    def read(self) -> Any:
        """The current Value, in the innermost running trace."""
        self._check_live()
        return effects.current(self, self.home, lambda: self.value)

    def write(self, value: Any) -> None:
        """Set the current Value, in the innermost running trace."""
        self._check_live()
        running = traces.running()
        if not running or running[-1] is self.home:
            self.value = value
        else:
            self.read()
            effects.set_current(running[-1], self, bind.lift(value, running[-1]))

    def __repr__(self) -> str:
        return f"a reference to {self.value!r}"

    def _check_live(self) -> None:
        if self.home is not None and not self.home.live:
            raise UnexpectedTracerError(
                f"a reference was used after {self.home.name}, which made it, had returned",
                got=repr(self),
                hint="return the reference, or its value",
            )


class Ref:
    """A mutable array: `new_ref` makes one.

    ``ref[i]`` reads, ``ref[i] = x`` writes, ``ref[...]`` is the whole array.
    """

    __slots__ = ("__weakref__", "_slots", "_structure")
    __hash__ = object.__hash__

    def __init__(self, structure: tree.Structure, values: Sequence[Any]) -> None:
        self._structure = structure
        self._slots = [Slot(value) for value in values]

    def __getitem__(self, index: Any) -> Any:
        whole = tree.unflatten(self._structure, [slot.read() for slot in self._slots])
        return whole if is_whole(index) else whole[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if not self._structure.is_leaf():
            if not is_whole(index):
                raise ArgumentError(
                    "a reference to keys is written as a whole",
                    got=f"ref[{shown(index)}] = ...",
                    hint="write ref[...] = keys",
                )
            leaves = tree.flatten_up_to(self._structure, value)
            for slot, leaf in zip(self._slots, leaves, strict=True):
                slot.write(leaf)
            return
        (slot,) = self._slots
        now, new = slot.read(), runtime.installed().asarray(value)
        self._check_dtype(now, new)
        if not is_whole(index) or new.shape != now.shape:
            new = now.at[index].set(new)
        elif new.dtype != now.dtype:
            new = new.astype(now.dtype)
        slot.write(runtime.installed().weaken(new, False) if new.weak_type else new)

    def _check_dtype(self, now: Any, new: Any) -> None:
        joined, _ = promote(((now.dtype, False), (new.dtype, new.weak_type)))
        if joined != now.dtype:
            raise DTypeError(
                f"a reference to {now.dtype.name} cannot hold {new.dtype.name}",
                got=repr(new)[:80],
                hint=f"write x.astype({now.dtype.name!r})",
            )

    def addupdate(self, x: Any, idx: Any = ...) -> None:
        """Add to elements, where an index may occur more than once."""
        now = self[...]
        new = runtime.installed().asarray(x)
        self._check_dtype(now, new)
        self[...] = now.at[idx].add(new)

    def get(self) -> Any:
        """The current array."""
        return self[...]

    def set(self, value: Any) -> None:
        """Write the whole array."""
        self[...] = value

    @property
    def at(self) -> At:
        """``ref.at[i]`` is a view, whose elements are read and written as those of a reference."""
        return At(self)

    @property
    def _like(self) -> Any:
        """A value of its type."""
        return tree.unflatten(self._structure, [slot.value for slot in self._slots])

    shape: Shape = property(lambda self: self._like.shape)  # type: ignore[assignment]
    dtype: Any = property(lambda self: self._like.dtype)
    ndim: int = property(lambda self: len(self.shape))  # type: ignore[assignment]
    size: int = property(lambda self: prod(self.shape))  # type: ignore[assignment]
    weak_type: bool = property(lambda self: False)  # type: ignore[assignment]
    sharding: Any = property(lambda self: self[...].sharding)

    def __len__(self) -> int:
        return len(self[...])

    def __iter__(self) -> Iterator[Any]:
        return iter(self[...])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self[...], dtype, copy=copy)

    def __repr__(self) -> str:
        return f"Ref({self._like!r})"


class At:
    """The views of a reference, by index: `Ref.at`."""

    __slots__ = ("_ref",)
    __iter__ = None  # with `__getitem__` alone iteration would never end

    def __init__(self, ref: Ref | View) -> None:
        self._ref = ref

    def __getitem__(self, index: Any) -> View:
        return View(self._ref, index)


class View:
    """A part of a reference, which is read and written in place."""

    __slots__ = ("_index", "_ref")

    def __init__(self, ref: Ref | View, index: Any) -> None:
        self._ref, self._index = ref, index

    def __getitem__(self, index: Any) -> Any:
        part = self._ref[self._index]
        return part if is_whole(index) else part[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        whole = is_whole(index)
        self._ref[self._index] = value if whole else self[...].at[index].set(value)

    def __len__(self) -> int:
        return len(self[...])

    def __iter__(self) -> Iterator[Any]:
        return iter(self[...])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self[...], dtype, copy=copy)

    def get(self) -> Any:
        """The current elements."""
        return self[...]

    def set(self, value: Any) -> None:
        """Write the elements."""
        self[...] = value

    @property
    def at(self) -> At:
        """Views of this view."""
        return At(self)

    shape: Shape = property(lambda self: self[...].shape)  # type: ignore[assignment]
    dtype: Any = property(lambda self: self._ref.dtype)


def is_whole(index: Any) -> bool:
    """Whether an index stands for the whole array: ``...``, ``()`` or None."""
    return index is ... or index is None or (isinstance(index, tuple) and not index)


def new_ref(init_val: Any, *, memory_space: object = None, kind: str | None = None) -> Ref:
    """A mutable array, which functions may close over or take as an argument.

    A program that uses it stays pure inside: the value goes into it and comes out of it.  So `jit`,
    `grad`, `vmap`, `scan`, `cond` and all other transforms work; what a function writes is no part
    of its derivative, unless it has made the reference itself.

    Args:
        init_val: the first value: an array, a number or a random key.
        memory_space, kind: accepted as in JAX and ignored.

    Returns:
        A `Ref`.

    Example:
        >>> import tfn
        >>> count = tfn.new_ref(0)
        >>> @tfn.jit
        ... def f(x):
        ...     count[...] += 1
        ...     return 2 * x
        >>> float(f(1.0)), float(f(2.0)), int(count[...])
        (2.0, 4.0, 2)
    """
    leaves, structure = tree.flatten(init_val)
    values = [runtime.installed().asarray(leaf) for leaf in leaves]
    return Ref(
        structure, [runtime.installed().weaken(x, False) if x.weak_type else x for x in values]
    )


def freeze(ref: Ref) -> Any:
    """The last value of a reference, which is not to be used after.

    Example:
        >>> ref = new_ref(1.0)
        >>> ref[...] = 3.0
        >>> float(freeze(ref))
        3.0
    """
    return ref[...]


# References among the arguments and the results of functions.


class Held:
    """A node of a tree without leaves: a reference that a function gets as it is."""

    __slots__ = ("ref",)

    def __init__(self, ref: Ref) -> None:
        self.ref = ref


class Made:
    """A node of a tree whose leaves are the last values of a reference that a function has made."""

    __slots__ = ("ref",)

    def __init__(self, ref: Ref) -> None:
        self.ref = ref


tree.register_node(Held, lambda held: ((), held.ref), lambda ref, _: ref)
tree.register_node(
    Made,
    lambda made: ([slot.read() for slot in made.ref._slots], made.ref._structure),
    lambda structure, values: Ref(structure, values),
)


def is_ref(x: object) -> bool:
    """Whether an object is a reference."""
    return type(x) is Ref


def among(leaves: Sequence[object]) -> bool:
    """Whether there is a reference among objects."""
    return any(map(is_ref, leaves))


def flatten(x: object) -> tuple[list[Any], tree.Structure]:
    """The leaves and the structure of a tree, in which references are no leaves but structure."""
    leaves, structure = tree.flatten(x)
    if among(leaves):
        packed = [Held(leaf) if is_ref(leaf) else leaf for leaf in leaves]
        return tree.flatten(tree.unflatten(structure, packed))
    return leaves, structure


def flatten_results(x: object) -> tuple[list[Any], tree.Structure]:
    """The same for results of a running trace: the values of references that it made are leaves."""
    leaves, structure = tree.flatten(x)
    if among(leaves):
        running = traces.running()
        home = running[-1] if running else None
        packed = [_packed(leaf, home) if is_ref(leaf) else leaf for leaf in leaves]
        return tree.flatten(tree.unflatten(structure, packed))
    return leaves, structure


def _packed(ref: Ref, home: traces.Trace | None) -> Held | Made:
    made_here = home is not None and all(slot.home is home for slot in ref._slots)
    return Made(ref) if made_here else Held(ref)
