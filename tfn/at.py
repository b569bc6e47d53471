"""``x.at[index]``: new arrays with some elements changed, the functional form of assignment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from tfn._support.validate import a_function

T = TypeVar("T")  # the array class, which is defined above this file


class At(Generic[T]):
    """``x.at``: waits for the index."""

    __slots__ = ("array",)

    def __init__(self, array: T) -> None:
        self.array = array

    def __getitem__(self, index: object) -> AtIndex[T]:
        return AtIndex(self.array, index)


class AtIndex(Generic[T]):
    """``x.at[index]``: new arrays with the elements there changed.

    An index given twice counts twice in `add`, `subtract`, `multiply`, `min` and `max`.  `mode`
    says what an index outside the axis does: ``"drop"`` (the default) leaves the update out,
    ``"clip"`` moves it to the border; for `get`, ``"clip"`` is the default and ``"fill"`` gives
    `fill_value`, by default NaN.

    Example:
        >>> import tfn.numpy as tnp
        >>> tnp.zeros(3).at[1].set(5)
        Array([0., 5., 0.], dtype=float32)
    """

    __slots__ = ("array", "index")

    def __init__(self, array: T, index: object) -> None:
        self.array, self.index = array, index

    def _update(self, how: str, values: object, mode: str | None) -> T:
        functions = cast(Any, self.array).__array_namespace__()
        return cast(T, functions.update(self.array, self.index, values, how, mode))

    def get(
        self,
        *,
        mode: str | None = None,
        fill_value: object = None,
        out_sharding: object = None,
        **hints: bool,
    ) -> T:
        """The elements, divided as `out_sharding` says if it is not None."""
        functions = cast(Any, self.array).__array_namespace__()
        elements = functions.getitem(self.array, self.index, mode=mode, fill_value=fill_value)
        return cast(T, elements if out_sharding is None else elements.to_device(out_sharding))

    def set(self, values: object, *, mode: str | None = None, **hints: bool) -> T:
        """The elements replaced."""
        return self._update("set", values, mode)

    def add(self, values: object, *, mode: str | None = None, **hints: bool) -> T:
        """The values added to the elements."""
        return self._update("add", values, mode)

    def subtract(self, values: object, *, mode: str | None = None, **hints: bool) -> T:
        """The values subtracted from the elements."""
        return self._update("subtract", values, mode)

    def multiply(self, values: object, *, mode: str | None = None, **hints: bool) -> T:
        """The elements times the values."""
        return self._update("multiply", values, mode)

    def divide(self, values: object, *, mode: str | None = None, **hints: bool) -> T:
        """The elements divided by the values."""
        return self._update("divide", values, mode)

    def power(self, values: object, *, mode: str | None = None, **hints: bool) -> T:
        """The elements to the power of the values."""
        return self._update("power", values, mode)

    def min(self, values: object, *, mode: str | None = None, **hints: bool) -> T:
        """The smaller of elements and values."""
        return self._update("min", values, mode)

    def max(self, values: object, *, mode: str | None = None, **hints: bool) -> T:
        """The larger of elements and values."""
        return self._update("max", values, mode)

    mul = multiply

    def apply(self, function: Callable[[T], T], *, mode: str | None = None, **hints: bool) -> T:
        """The elements replaced by `function` of them.

        Raises:
            ArgumentError: if `function` cannot be called.
        """
        a_function("x.at[index].apply", "function", function)
        return self.set(function(self.get(mode=mode)), mode=mode)
