"""``x.at[index]``: new arrays with some elements changed, the functional form of assignment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar, cast

from tfn._support.validate import a_function

T = TypeVar("T")  # the array class, which is defined above this file
_UPDATES: list[Callable[[], Any]] = []  # the module tfn.lax.updates


def install(updates: Callable[[], Any]) -> None:
    """Install the function behind `AtIndex.apply`; done once, by ``tfn/__init__.py``."""
    _UPDATES[:] = [updates]


class At(Generic[T]):
    """``x.at``: waits for the index."""

    __slots__ = ("array",)
    __iter__ = None  # with `__getitem__` alone iteration would never end

    def __init__(self, array: T) -> None:
        self.array = array

    def __getitem__(self, index: object) -> AtIndex[T]:
        return AtIndex(self.array, index)


class AtIndex(Generic[T]):
    """``x.at[index]``: new arrays with the elements there changed.

    An index given twice counts twice, except in `set`.  `mode`
    says what an index outside the axis does: ``"drop"`` (the default) leaves the update out,
    ``"clip"`` moves it to the border; for `get`, ``"clip"`` is the default and ``"fill"`` gives
    `fill_value`, by default NaN.  `out_sharding` says how the result is divided, where that does
    not follow from the explicit shardings of the operands.

    Example:
        >>> import tfn.numpy as tnp
        >>> tnp.zeros(3).at[1].set(5)
        Array([0., 5., 0.], dtype=float32)
    """

    __slots__ = ("array", "index")

    def __init__(self, array: T, index: object) -> None:
        self.array, self.index = array, index

    def _update(self, how: str, values: object, mode: str | None, hints: dict[str, Any]) -> T:
        functions = cast(Any, self.array).__array_namespace__()
        update = partial(functions.update, self.array, self.index, values, how, mode)
        return self._divided(hints.get("out_sharding"), update)

    def _divided(self, out_sharding: Any, make: Callable[[], Any]) -> T:
        """The result, divided as `out_sharding` says if it is not None."""
        if out_sharding is None:
            return cast(T, make())
        functions = cast(Any, self.array).__array_namespace__()
        return cast(T, functions.resolved(out_sharding, make))

    def get(
        self,
        *,
        mode: str | None = None,
        fill_value: object = None,
        out_sharding: object = None,
        **hints: Any,
    ) -> T:
        """The elements, divided as `out_sharding` says if it is not None."""
        functions = cast(Any, self.array).__array_namespace__()
        elements = partial(
            functions.getitem, self.array, self.index, mode=mode, fill_value=fill_value
        )
        return self._divided(out_sharding, elements)

    def set(self, values: object, *, mode: str | None = None, **hints: Any) -> T:
        """The elements replaced."""
        return self._update("set", values, mode, hints)

    def add(self, values: object, *, mode: str | None = None, **hints: Any) -> T:
        """The values added to the elements."""
        return self._update("add", values, mode, hints)

    def subtract(self, values: object, *, mode: str | None = None, **hints: Any) -> T:
        """The values subtracted from the elements."""
        return self._update("subtract", values, mode, hints)

    def multiply(self, values: object, *, mode: str | None = None, **hints: Any) -> T:
        """The elements times the values."""
        return self._update("multiply", values, mode, hints)

    def divide(self, values: object, *, mode: str | None = None, **hints: Any) -> T:
        """The elements divided by the values."""
        return self._update("divide", values, mode, hints)

    def power(self, values: object, *, mode: str | None = None, **hints: Any) -> T:
        """The elements to the power of the values."""
        return self._update("power", values, mode, hints)

    def min(self, values: object, *, mode: str | None = None, **hints: Any) -> T:
        """The smaller of elements and values."""
        return self._update("min", values, mode, hints)

    def max(self, values: object, *, mode: str | None = None, **hints: Any) -> T:
        """The larger of elements and values."""
        return self._update("max", values, mode, hints)

    mul = multiply

    def apply(self, function: Callable[[T], T], *, mode: str | None = None, **hints: Any) -> T:
        """The elements replaced by `function` of them, k times at an index that is given k times.

        Args:
            function: of an array, element by element.
            mode: what an index outside does.
            **hints: ``unique_indices=True`` says that no index is given twice, which spares a loop
                where indices are traced.

        Raises:
            ArgumentError: if `function` cannot be called.
        """
        a_function("x.at[index].apply", "function", function)
        unique = bool(hints.get("unique_indices"))
        apply = partial(_UPDATES[0]().applied, self.array, self.index, function, mode, unique)
        return self._divided(hints.get("out_sharding"), apply)
