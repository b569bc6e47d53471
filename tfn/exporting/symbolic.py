"""Shape-polymorphic functions: one serialized function for many sizes.

    b, = tfn.export.symbolic_shape("b", "b >= 2")
    data = tfn.export.serialize(f, tfn.ShapeDtypeStruct((b, 28, 28), "float32"))
    tfn.export.deserialize(data)(images)                  any number of images

The function is traced at several sizes, its witnesses.  The traces must be the same operations; the
integers in which they differ become polynomials in the symbols, interpolated through all witnesses.
Then the type rules (`trace.primitives`) are run on the polynomials, which proves that operations
fit together for all sizes that the constraints allow, by z3 where arithmetic is not enough.  A call
substitutes numbers, once for each size.

Limits:

- The polynomials equal what Python would have computed at the witnesses, which are small, medium
  and large; at all other sizes this is assumed.  A function that branches on the size in Python is
  detected only if there are witnesses on both sides; then it is refused, and the error names the
  two sizes and the operation.
- At size 1 the function for larger sizes is used, if its results have the same types.
- Sizes are polynomials of degree 2, or such polynomials divided by an integer that divides them by
  a constraint.  Constants may be such a size, or an integer divided by one, as in a mean.
- Lowering may treat sizes differently, such as sorts of few and of many elements.  That is no
  limit: operations are recorded before lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np

from tfn import tree
from tfn.dtypes import SHORT, DType
from tfn.errors import ArgumentError, ExportError, ShapeError, TfnError
from tfn.exporting import wellformed
from tfn.exporting.container import read_again, written
from tfn.exporting.generalize import Fit, show, witnesses
from tfn.exporting.portable import Input, Outline, Portable, agree, arranged, portable, stored
from tfn.exporting.symbolic_dims import Numbers, Polynomial, Ratio, Scope, Size, Undecided
from tfn.exporting.wellformed import Row
from tfn.extend import Jaxpr, Op, ShapeDtypeStruct, argument, frozen, name_of, source_lines
from tfn.trace.primitives import PRIMITIVES
from tfn.transforms.arguments import show as typed


@dataclass(frozen=True, slots=True, eq=False)
class Symbolic:
    """A portable function with symbolic dimensions.

    Attributes:
        rows: of the closed function, with polynomials for integers.
        inputs: with polynomials in their shapes.
        captured, outputs, weak: as in `Portable`.
        constraints: of the symbols, as text.
        instances: the function at sizes at which it was called.
    """

    rows: Sequence[Row]
    inputs: tuple[Input, ...]
    captured: tuple[Any, ...]
    outputs: Outline
    weak: tuple[bool, ...]
    constraints: tuple[str, ...]
    instances: dict[tuple[int, ...], Portable] = field(default_factory=dict)

    @property
    def scope(self) -> Scope:
        """Its symbols with their constraints."""
        return Scope(symbols_of(i.shape for i in self.inputs), self.constraints)

    def at(self, **numbers: int) -> Portable:
        """The function at one size.

        Raises:
            ArgumentError: if there is not one int for each symbol.
            ShapeError: if a constraint does not allow it.
            ExportError: if operations do not fit together at this size, which can happen only with
                bytes that `serialize` has not written.
        """
        scope = self.scope
        if numbers.keys() != {*scope.symbols} or any(type(n) is not int for n in numbers.values()):
            raise ArgumentError(
                f"the function is of the sizes {', '.join(scope.symbols)}",
                got=show(numbers) or "none",
            )
        broken = scope.broken(numbers)
        if broken:
            raise ShapeError(
                "sizes do not fulfil the constraints of the function",
                got=f"{show(numbers)}, and {', '.join(broken)}",
                hint="pad the arrays, or serialize it with other constraints",
            )
        key = tuple(numbers[s] for s in scope.symbols)
        if key not in self.instances:
            self.instances[key] = self._at(numbers)
        return self.instances[key]

    def _at(self, numbers: Numbers) -> Portable:
        put: Callable[[Any], Any] = lambda x: mapped(x, lambda p: p.at(numbers), numbers)
        try:
            rows = wellformed.rows(tuple([(op, src, put(arg)) for op, src, arg in self.rows]))
            inputs = tuple(replace(i, shape=put(i.shape)) for i in self.inputs)
            function = Jaxpr(wellformed.built(rows))
        except (TfnError, ArithmeticError) as error:  # only of bytes that were not proved
            raise ExportError(
                f"the serialized function does not exist at {show(numbers)}",
                got=getattr(error, "got", "") or str(error),
            ) from error
        instance = Portable(function, inputs, self.captured, self.outputs, self.weak)
        instance.check()
        return instance

    def check(self) -> None:
        """Refuse a signature that does not match the function, and malformed constraints.

        Raises:
            ExportError, ArgumentError: for one of these.
        """
        _, outputs, arg = self.rows[-1]
        agree(self, arg.params, len(outputs))
        assert self.scope.symbols

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Apply the function to arguments of any sizes that the constraints allow.

        Raises:
            ShapeError: naming the arguments whose sizes do not fit together.
        """
        leaves = arranged(self.inputs, args, kwargs)
        return self.at(**self.numbers([np.shape(x) for x in leaves]))(*args, **kwargs)

    def numbers(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
        """The values of the symbols in the shapes of arguments.

        Raises:
            ShapeError: if a symbol has several.
        """
        values: dict[str, int] = {}
        where: dict[str, Input] = {}
        pairs: list[tuple[Input, Any, int]] = [
            (i, size, n)
            for i, shape in zip(self.inputs, shapes, strict=True)
            for size, n in zip(i.shape, shape)
            if isinstance(size, Polynomial)
        ]
        for i, size, n in sorted(pairs, key=lambda pair: len(pair[1].terms) > 1):
            symbol = next(iter(size.symbols))
            if len(size.symbols) == 1 and symbol not in values:
                solved = _solved(size, symbol, n)
                if solved is not None:
                    values[symbol], where[symbol] = solved, i
        for i, shape in zip(self.inputs, shapes, strict=True):
            fits = len(shape) == len(i.shape) and all(
                n == (s.at(values) if isinstance(s, Polynomial) else s)
                for s, n in zip(i.shape, shape)
                if not isinstance(s, Polynomial) or s.symbols <= values.keys()
            )
            if not fits or not symbols_of([i.shape]) <= values.keys():
                seen = ", ".join(f"{s} = {values[s]} in {where[s]}" for s in values)
                got = f"{i}: {shape} instead of {i.shape}" + (f"; {seen}" if seen else "")
                raise ShapeError(
                    "sizes of arguments do not fit together",
                    got=got,
                    hint="a symbol stands for one size in all arguments",
                )
        return values

    @property
    def in_avals(self) -> tuple[ShapeDtypeStruct, ...]:
        """The types of the inputs, with polynomials for sizes."""
        return tuple(ShapeDtypeStruct(i.shape, i.dtype, i.weak) for i in self.inputs)

    @property
    def out_avals(self) -> tuple[ShapeDtypeStruct, ...]:
        """The types of the results, with polynomials for sizes."""
        return tuple(
            ShapeDtypeStruct(shape, dtype, weak)
            for (shape, dtype), weak in zip(prove(self), self.weak, strict=True)
        )

    @property
    def call(self) -> Callable[..., Any]:
        """The function, under the name that JAX gives it."""
        return self.__call__

    def serialize(self) -> bytes:
        """The function as bytes; see `tfn.export.serialize`."""
        inputs = tuple((i.path, i.shape, i.dtype, i.weak) for i in self.inputs)
        record = tuple(self.rows), inputs, stored(self.captured), self.outputs, self.weak
        return read_again(*record, self.constraints)

    def __repr__(self) -> str:
        takes = ", ".join(f"{SHORT[i.dtype]}[{','.join(map(str, i.shape))}]" for i in self.inputs)
        conditions = f" where {', '.join(self.constraints)}" if self.constraints else ""
        return f"<a function of ({takes}){conditions}>"


def symbols_of(shapes: Any) -> frozenset[str]:
    """The symbols that occur in shapes."""
    sizes = (size for shape in shapes for size in shape if isinstance(size, Polynomial))
    return frozenset(s for size in sizes for s in size.symbols)


def _solved(size: Polynomial, symbol: str, n: int) -> int | None:
    """The value of the symbol in ``k * symbol + c == n``; None if there is none."""
    factors = size.fractions
    if set(factors) - {(), (symbol,)}:
        return None
    value = (n - factors.get((), Fraction(0))) / factors[(symbol,)]
    return int(value) if value.denominator == 1 else None


def mapped(value: object, put: Callable[[Polynomial], Any], numbers: Numbers | None = None) -> Any:
    """An argument of an operation with its polynomials replaced."""
    if isinstance(value, Polynomial):
        return put(value)
    if isinstance(value, tuple):
        return tuple([mapped(x, put, numbers) for x in value])
    if isinstance(value, argument.Const) and isinstance(value.bits, Ratio):
        bits = value.bits.bits(value.dtype, numbers) if numbers is not None else 0
        return argument.Const(value.dtype, bits, mapped(value.shape, put))
    if is_dataclass(value) and not isinstance(value, type):
        new = {f.name: mapped(getattr(value, f.name), put, numbers) for f in fields(value)}
        return type(value)(**new)
    return value


def anyhow(function: Callable[..., Any]) -> Callable[..., Portable | Symbolic]:
    """Returns a function that makes `function` portable: for all sizes if shapes have symbols.

    Raises:
        ExportError: if it is not the same function at all sizes.
    """
    make = portable(function)

    def chosen(*args: Any, **kwargs: Any) -> Portable | Symbolic:
        shapes = [x.shape for x in tree.leaves((args, kwargs)) if isinstance(x, ShapeDtypeStruct)]
        symbols = symbols_of(shapes)
        if not symbols:
            return make(*args, **kwargs)
        present = {n for x in tree.leaves((args, kwargs)) for n in getattr(x, "shape", ())}
        fixed = frozenset(n for n in present if isinstance(n, int))
        sizes: list[Any] = [s for shape in shapes for s in shape if isinstance(s, Polynomial)]
        scope = Scope(symbols, (text for size in sizes for text in size.constraints))
        return _Tracing(name_of(function), make, args, kwargs, scope).run(fixed)

    return chosen


@frozen
class _Tracing:
    """The state of tracing a function for all sizes."""

    name: str
    make: Callable[..., Portable]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    scope: Scope

    def run(self, avoided: frozenset[int]) -> Symbolic:
        """Trace, unify and prove."""
        try:
            unified = self._fitted(avoided)
        except ExportError as error:
            # A size may have equalled another integer of the function by chance: take others.
            more = avoided | {n for at in witnesses(self.scope, avoided) for n in at.values()}
            try:
                unified = self._fitted(frozenset(more))
            except ExportError:
                raise error from None
        prove(unified)
        self._check_size_one(unified)
        return unified

    def _fitted(self, avoided: frozenset[int]) -> Symbolic:
        places = witnesses(self.scope, avoided)
        with source_lines.tracking():
            traces = [self._traced(numbers) for numbers in places]
            fit = Fit(self.name, places, [written(t.jaxpr) for t in traces])
            rows, inputs = _signature(fit, traces)
        first, texts = traces[0], tuple(c.text for c in self.scope.constraints)
        return Symbolic(rows, inputs, first.captured, first.outputs, first.weak, texts)

    def _check_size_one(self, unified: Symbolic) -> None:
        """Refuse a function whose results have other types where all symbols are 1."""
        least = dict.fromkeys(self.scope.symbols, 1)
        if self.scope.allows(least):
            expected, got = self._traced(least).out_avals, unified.at(**least).out_avals
            if expected != got:
                raise ExportError(
                    f"{self.name} is not the same function at {show(least)} and above",
                    got=f"results {', '.join(map(typed, expected))} at {show(least)}, "
                    f"and {', '.join(map(typed, got))} of the function for larger sizes",
                    hint="add a constraint, as 'b >= 2'",
                )

    def _traced(self, numbers: Numbers) -> Portable:
        def sized(leaf: object) -> Any:
            if not isinstance(leaf, ShapeDtypeStruct):
                return leaf
            return replace(leaf, shape=mapped(leaf.shape, lambda p: p.at(numbers)))

        args, kwargs = tree.map(sized, (self.args, self.kwargs))
        try:
            return self.make(*args, **kwargs)
        except TfnError as error:
            error.add_note(f"{self.name} was traced at {show(numbers)}")
            raise


def _signature(fit: Fit, traces: Sequence[Portable]) -> tuple[list[Row], tuple[Input, ...]]:
    """The unified rows and inputs of traces.

    Raises:
        ExportError: with two sizes, and what differs between them.
    """
    first = traces[0]
    for i, other in enumerate(traces):
        if (other.outputs, other.weak) != (first.outputs, first.weak):
            raise fit.differ(i, "the results are nested differently, or differ in weakness")
    rows = fit.run()
    listed = zip(*(t.inputs for t in traces), strict=True)
    inputs = tuple(replace(many[0], shape=fit.unified([i.shape for i in many])) for many in listed)
    arrays = [stored(t.captured) for t in traces]
    for i, other_arrays in enumerate(arrays):
        if other_arrays != arrays[0]:
            raise fit.differ(
                i,
                "arrays that were made of no argument are not the same",
                "pass what they are made of, as a random key, or make them by tfn.numpy.arange",
            )
    return rows, inputs


# The proof.


@frozen
class _Typed:
    """A node as type rules see it."""

    op: Op
    src: tuple[Any, ...]
    arg: Any
    shape: tuple[Any, ...]
    dtype: DType


def prove(function: Symbolic) -> list[tuple[tuple[Any, ...], DType]]:
    """Prove that operations fit together at all sizes that the constraints allow.

    Returns:
        Shape and dtype of each result.

    Raises:
        ExportError: naming an operation without a proof, and the undecided question.
    """
    scope = function.scope
    nodes: list[_Typed] = []
    for op, src, arg in function.rows:
        sources = tuple(nodes[i] for i in src)
        kinds = ", ".join(f"{SHORT[s.dtype]}[{','.join(map(str, s.shape))}]" for s in sources)
        try:
            whole(arg, scope)
            sized = mapped(arg, lambda p: Size(p, scope))
            shape, dtype = PRIMITIVES[op].infer(cast(Any, sources), sized)
            if any(isinstance(n, Size) and not scope.always(">=", n.polynomial) for n in shape):
                raise Undecided(f"whether {shape} has negative sizes")
        except (Undecided, TfnError, AssertionError, TypeError, ValueError) as error:
            what = error.what if isinstance(error, TfnError) else str(error)
            constraints = ", ".join(function.constraints) or "none"
            raise ExportError(
                f"it cannot be proved that {op.value} fits for all sizes",
                got=f"{op.value} of {kinds}: {what}; constraints: {constraints}",
                hint="add a constraint, as 'b >= 2' or 'b % 8 == 0'",
            ) from error
        nodes.append(_Typed(op, sources, sized, shape, dtype))
    plain = lambda n: n.polynomial if isinstance(n, Size) else n
    return [(tuple(map(plain, u.shape)), u.dtype) for u in nodes[-1].src]


def whole(value: Any, scope: Scope) -> None:
    """Refuse polynomials that are not integers everywhere.

    Raises:
        Undecided: naming the first of them.
    """

    def check(p: Polynomial) -> Polynomial:
        if p.divisor > 1 and not scope.always("%", p * p.divisor, p.divisor):
            raise Undecided(f"whether {p} is whole")
        return p

    mapped(value, check)
    if isinstance(value, argument.Const) and isinstance(value.bits, Ratio):
        check(value.bits.polynomial)
        if value.bits.over and not scope.always(">", value.bits.polynomial):
            raise Undecided(f"whether {value.bits.polynomial} is positive")
