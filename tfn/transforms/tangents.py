"""Trees of tangents and cotangents from the user, checked against the types of their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tfn import tree
from tfn._support.frozen import frozen
from tfn.dtypes import COMPLEXES, FLOATS, INEXACT, DType
from tfn.errors import DTypeError, ShapeError, TreeError
from tfn.trace import bind, runtime
from tfn.trace.op import Op, Shape
from tfn.transforms.arguments import as_value, show
from tfn.transforms.shapes import ShapeDtypeStruct


@frozen
class SymbolicZero:
    """A tangent or cotangent that is known to be zero, of a shape and dtype, without elements.

    Example:
        >>> SymbolicZero((3,), "float32").shape
        (3,)
    """

    shape: Shape
    dtype: DType

    @property
    def aval(self) -> ShapeDtypeStruct:
        """Its type."""
        return ShapeDtypeStruct(self.shape, self.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)


@frozen
class Vectors:
    """The type of the tangents, or cotangents, of a tree of values of types `slots`.

    Attributes:
        role: tangent or cotangent.
        names: what the user calls a value, by its number; its path in the tree if None.
    """

    structure: tree.Structure
    slots: tuple[ShapeDtypeStruct, ...]
    role: str
    names: Callable[[int], str] | None = None

    def check(self, vectors: object) -> list[runtime.Value | None]:
        """One Value per floating slot, None for zero; see `every`."""
        values = self.every(vectors)
        return [x for x, slot in zip(values, self.slots, strict=True) if slot.floating]

    def every(self, vectors: object) -> list[runtime.Value | None]:
        """One Value per slot; None, and `SymbolicZero`, for zero and for integers.

        Raises:
            TreeError, ShapeError, DTypeError: naming the leaf that differs.
        """
        try:
            flat = tree.flatten_up_to(self.structure, vectors)
        except ValueError as error:
            got = tree.show(tree.structure(vectors))
            raise TreeError(
                f"the {self.role}s must have the structure of their values",
                got=f"{got} instead of {tree.show(self.structure)}",
                hint=f"{error}; None stands for zero",
            ) from None
        return [self._fit(i, leaf) for i, leaf in enumerate(flat)]

    @property
    def weak(self) -> list[bool]:
        """Weakness of each floating slot."""
        return [slot.weak_type for slot in self.slots if slot.floating]

    def _name(self, i: int) -> str:
        if self.names is not None:
            return f"the {self.role} of {self.names(i)}"
        path = tree.places(self.structure)[i][1]
        return f"the {self.role}{f' at {path}' if path else ''}"

    def _fit(self, i: int, leaf: object) -> runtime.Value | None:
        slot = self.slots[i]
        nothing = getattr(getattr(leaf, "dtype", None), "itemsize", 1) == 0  # JAX's float0
        zero = leaf is None or isinstance(leaf, SymbolicZero)
        if zero or (nothing and not slot.floating):
            return None
        value: runtime.Value = as_value(leaf, lambda: self._name(i))
        if not slot.floating and self.role == "cotangent" and value.shape == slot.shape:
            return None  # as JAX ignores it, where the values themselves serve as cotangents
        if not slot.floating:
            raise DTypeError(
                f"{self._name(i)} belongs to a value of {slot.dtype}, which has none",
                got=show(value),
                hint="pass None there",
            )
        if value.shape != slot.shape:
            raise ShapeError(
                f"{self._name(i)} must have the shape of its value",
                got=f"{show(value)} for {show(slot)}",
                hint=f"pass a {self.role} of shape {slot.shape}",
            )
        if value.dtype != slot.dtype:
            fits = value.dtype in (INEXACT if slot.dtype in COMPLEXES else FLOATS)
            if not (value.weak_type and fits):
                raise DTypeError(
                    f"{self._name(i)} must have the dtype of its value",
                    got=f"{show(value)} for {show(slot)}",
                    hint="use .astype",
                )
            value = bind.bind(Op.CAST, value, arg=slot.dtype)
        return value

    def build(self, values: Sequence[Any]) -> Any:
        """The tree of one Value per floating slot; None elsewhere."""
        rest = iter(values)
        return tree.unflatten(
            self.structure, [next(rest) if s.floating else None for s in self.slots]
        )
