"""Functions compiled once for all sizes of a bucket: what ``tfn.jit(f, buckets=...)`` gives.

A call reads the sizes of its arguments, copies the arrays into padded ones, runs the program of the
bucket with the true sizes as scalars, and cuts the results.  The program is made of the function at
the size of the bucket by masking (`scope`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from math import prod
from types import MethodType
from typing import Any, NamedTuple

import numpy as np

from tfn import tree
from tfn.buckets.mask import MASK
from tfn.buckets.scope import Masking
from tfn.buckets.spec import Axis, Buckets, axes_of, sizes_of
from tfn.buckets.unified import Unified, unifications, with_quotients
from tfn.dtypes import RULES
from tfn.errors import ArgumentError, ExportError, ShapeError
from tfn.exporting.symbolic_dims import Numbers, Polynomial, Scope
from tfn.extend import (
    Jaxpr,
    Jitted,
    ShapeDtypeStruct,
    as_value,
    bind,
    frozen,
    mutable,
    name_of,
    runtime,
    traces,
    wraps,
)
from tfn.transforms.arguments import argument_names
from tfn.transforms.disable import DISABLED

ALIGNMENT_BYTES = 64
"""A cache line: arrays that begin there are taken as they are, and not copied once more."""

TRIES = 8
"""Sizes at each end of a bucket at which a function may be another one: it then runs as it is."""


class Bucket(NamedTuple):
    """The use of one program.

    Attributes:
        sizes: the size of each axis that is padded to.
        calls: how many calls it served.
        padding: the share of the elements of padded arguments that were padding.
    """

    sizes: dict[str, int]
    calls: int
    padding: float


class BucketInfo(NamedTuple):
    """The programs of a function with buckets.

    Attributes:
        buckets: those in use, in the order in which they were made.
        last: the one of the last call; None of a call that ran the function as it is.
        exact: calls for sizes at which the function is another one, each size with its own program.
        padding: the share of padding in all calls.
    """

    buckets: list[Bucket]
    last: Bucket | None
    exact: int
    padding: float


@mutable
class _Program:
    """The program of a bucket.

    Attributes:
        run: the compiled function of padded arguments and sizes.
        capacities: the size of each axis that is padded to.
        fits: the sizes for which it is the function.
        shapes: of the results, with polynomials.
        structure: of the results.
    """

    run: Any  # a Jitted
    capacities: Numbers
    fits: dict[str, range]
    shapes: list[tuple[Any, ...]]
    structure: Any
    calls: int = 0
    elements: int = 0
    padded: int = 0

    @property
    def used(self) -> Bucket:
        """Its use so far."""
        share = 1 - self.elements / self.padded if self.padded else 0.0
        return Bucket(dict(self.capacities), self.calls, round(share, 4))


@frozen
class _Call:
    """A call of a program: the true sizes, and its operands with their elements before and after
    padding.
    """

    program: _Program
    sizes: dict[str, int]
    operands: list[Any]
    elements: int
    padded: int


@frozen
class _Plan:
    """Arguments of one type but for their sizes, and the programs for them.

    Attributes:
        axes: those that are padded.
        names: of the arrays.
        scope: the names of sizes, with their constraints.
        trace: the traced function at some sizes.
        donated: the arrays that are donated.
        wholes: the function of all sizes, or of those of a bucket each.
        programs: by the sizes of buckets.
    """

    axes: list[Axis]
    names: list[str]
    scope: Scope
    trace: Callable[[Numbers], Any]
    donated: frozenset[int]
    wholes: list[Unified]
    programs: dict[tuple[int, ...], _Program]


class Bucketed:
    """A function with buckets: what `tfn.jit` gives for them."""

    def __init__(
        self, function: Callable[..., Any], buckets: Any, options: Mapping[str, Any]
    ) -> None:
        wraps(function)(self)
        self.function, self.options = function, options
        self.buckets = buckets if isinstance(buckets, Buckets) else Buckets(buckets)
        self.plain: Jitted[..., Any] = Jitted(function, **options)
        self.clear_cache()

    def clear_cache(self) -> None:
        """Forget every program."""
        self.plain.clear_cache()
        self._axes: dict[Any, list[Axis]] = {}
        self._plans: dict[Any, _Plan] = {}
        self._exact = 0
        self._last: _Program | None = None

    def cache_info(self) -> BucketInfo:
        """The buckets in use, and what padding costs.

        Example:
            >>> import numpy as np
            >>> import tfn
            >>> f = tfn.jit(lambda x: x.sum(), buckets={"x": "n"})
            >>> [int(f(np.arange(n))) for n in (3, 5, 6)]
            [3, 10, 15]
            >>> f.cache_info().buckets
            [Bucket(sizes={'n': 8}, calls=3, padding=0.4167)]
        """
        programs = [p for plan in self._plans.values() for p in plan.programs.values()]
        used = [p.used for p in programs]
        padded = sum(p.padded for p in programs)
        share = 1 - sum(p.elements for p in programs) / padded if padded else 0.0
        return BucketInfo(
            used, self._last.used if self._last else None, self._exact, round(share, 4)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result for arguments of these sizes.

        Raises:
            ShapeError: for a size above all buckets, sizes of one name that differ, sizes that
                break a constraint, and a function of which padding cannot be kept out.
        """
        traced = any(getattr(x, "owner", None) is not None for x in tree.leaves((args, kwargs)))
        if traced or DISABLED[0]:
            return self.plain(*args, **kwargs)  # a larger function is traced at these sizes
        call = self._prepared(args, kwargs)
        self._last = call.program if call else None
        if call is None:
            self._exact += 1
            return self.plain(*args, **kwargs)
        program, sizes = call.program, with_quotients(call.sizes)
        program.calls += 1
        program.elements += call.elements
        program.padded += call.padded
        cut = []
        for x, shape in zip(program.run(*call.operands), program.shapes, strict=True):
            true = tuple([n.at(sizes) if isinstance(n, Polynomial) else n for n in shape])
            cut.append(x if true == x.shape else _copied(x, true, true))
        return tree.unflatten(program.structure, cut)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """The program of the bucket of these arguments, lowered but not compiled; nothing runs.

        It takes their arrays padded, and then the true sizes in the order of their names.

        Example:
            >>> import numpy as np
            >>> import tfn
            >>> f = tfn.jit(lambda x: x.max(), buckets={"x": "n"})
            >>> print(f.lower(np.ones(3, "float32")).as_text("ranges").splitlines()[3].strip())
            v0 = max(v0, where(i32(r0) < b[0], a[r0], -inf))
        """
        call = self._prepared(args, kwargs)
        if call is None:
            return self.plain.lower(*args, **kwargs)
        return call.program.run.lower(*call.operands)

    def __get__(self, instance: object, owner: type) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {name_of(self.function)} with buckets>"

    def _prepared(self, args: Any, kwargs: Any) -> _Call | None:
        """A call of the program of a bucket; None where the function runs as it is."""
        split = self.plain.static.split(self.function, args, kwargs)
        leaves, structure = tree.flatten(split.dynamic)
        values = [as_value(x, "an argument of a function with buckets") for x in leaves]
        form = structure, split.statics, tuple([len(x.shape) for x in values])
        axes = self._axes.get(form)
        if axes is None:
            axes = self._axes[form] = axes_of(self.buckets, self.function, split, values)
        shapes: list[list[Any]] = [list(x.shape) for x in values]
        for leaf, axis, name in axes:
            shapes[leaf][axis] = name
        kinds = zip(map(tuple, shapes), values, strict=True)
        key = form, tuple([(shape, x.dtype, x.weak_type) for shape, x in kinds]), *RULES[0]
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(split, structure, axes, values, shapes)
        sizes = sizes_of(axes, [x.shape for x in values], plan.names)
        if not min(sizes.values()):
            return None
        program = self._program(plan, sizes)
        if any(n not in program.fits[s] for s, n in sizes.items()):
            return None
        widths: dict[int, list[int]] = {}
        for leaf, axis, name in axes:
            widths.setdefault(leaf, list(values[leaf].shape))[axis] = program.capacities[name]
        operands, elements, padded = list(values), 0, 0
        for leaf, wide in widths.items():
            operands[leaf] = _copied(values[leaf], wide, values[leaf].shape)
            elements += prod(values[leaf].shape)
            padded += prod(wide)
        operands += [np.int32(sizes[s]) for s in plan.scope.symbols]
        return _Call(program, sizes, operands, elements, padded)

    def _plan(
        self, split: Any, structure: Any, axes: list[Axis], values: list[Any], shapes: Any
    ) -> _Plan:
        types = [(tuple(s), x.dtype, x.weak_type) for s, x in zip(shapes, values, strict=True)]
        arranged = replace(split, dynamic=((), {}))  # without the arrays

        def trace(numbers: Numbers) -> Any:
            kinds = [
                ShapeDtypeStruct(tuple([numbers.get(n, n) for n in shape]), dtype, weak)
                for shape, dtype, weak in types
            ]
            args, kwargs = arranged.join(tree.unflatten(structure, kinds))
            try:
                with traces.tracing(name_of(self.function), known=False, apart=True):
                    traced = Jitted(self.function, **self.options).trace(*args, **kwargs)
            except Exception as error:
                error.add_note(f"  while: it was traced for buckets at {show(numbers)}")
                raise
            if traced.cells:
                raise ArgumentError(
                    f"{name_of(self.function)} has effects, which would see padded arrays",
                    got="debug.print, a callback with effects or a reference",
                    hint="leave them out, or jit it without buckets",
                )
            return traced

        texts = self.buckets.constraints
        scope = Scope({name for *_, name in axes}, (texts,) if isinstance(texts, str) else texts)
        names = argument_names(self.function, structure, split.positions)
        donated = self.plain._donated(split, structure)
        return _Plan(axes, names, scope, trace, donated, [], {})

    def _program(self, plan: _Plan, sizes: dict[str, int]) -> _Program:
        broken = plan.scope.broken(sizes)
        if broken:
            raise ShapeError(
                f"sizes do not fulfil the constraints of {name_of(self.function)}",
                got=", ".join(f"{s} = {n}" for s, n in sizes.items()) + f": {', '.join(broken)}",
                hint="pad the arrays, or declare other constraints",
            )
        capacities = {s: self.buckets.rounded(s, sizes[s]) for s in plan.scope.symbols}
        key = tuple(capacities.values())
        if key not in plan.programs:
            plan.programs[key] = self._made(plan, capacities)
        return plan.programs[key]

    def _made(self, plan: _Plan, capacities: dict[str, int]) -> _Program:
        """The program of a bucket."""
        name = name_of(self.function)
        if not plan.scope.allows(capacities):
            raise ArgumentError(
                f"a bucket of {name} breaks a constraint on its sizes",
                got=f"{show(capacities)}: {', '.join(plan.scope.broken(capacities))}",
                hint="declare sizes of buckets that fulfil it",
            )
        ranges = {s: range(self.buckets.below(s, n) + 1, n + 1) for s, n in capacities.items()}
        whole, fits = self._whole(plan, ranges)
        masked = Masking(whole, capacities, MASK).masked()
        count, captured, weak = len(capacities), whole.traced.captured, whole.traced.weak

        def run(*values: Any) -> list[Any]:
            operands = [*values[-count:], *values[:-count], *captured]
            return bind.call(Jaxpr(masked), operands, weak)

        run.__name__ = run.__qualname__ = f"{name}[{show(capacities)}]"
        padded = {leaf for leaf, *_ in plan.axes}
        donated = tuple(sorted(plan.donated - padded))
        compiled: Jitted[..., Any] = Jitted(run, donate_argnums=donated)
        return _Program(compiled, capacities, fits, whole.results, whole.traced.structure)

    def _whole(self, plan: _Plan, ranges: dict[str, range]) -> tuple[Unified, dict[str, range]]:
        """The function of all sizes, and those of a bucket for which Python makes the same one.

        Raises:
            ShapeError: if it depends on sizes in another way.
        """
        name, errors = name_of(self.function), list[Exception]()
        for whole in chain(plan.wholes, unifications(name, plan.trace, plan.scope, ranges)):
            if isinstance(whole, Exception):
                errors.append(whole)
                continue
            fits = _fits(whole, plan.trace, plan.scope, ranges)
            if fits:
                if whole not in plan.wholes:
                    plan.wholes.append(whole)
                return whole, fits
        for error in errors:
            if isinstance(error, ExportError):
                raise ShapeError(error.what, got=error.got, hint=_SAME) from error
        if errors:
            raise errors[-1]
        raise ShapeError(
            f"{name} is not the same function at all sizes of a bucket",
            got=", ".join(f"{s} from {r[0]} to {r[-1]}" for s, r in ranges.items()),
            hint=_SAME,
        )


_SAME = (
    "leave the axis out of the buckets, compute the same at all sizes (also what is made of a size:"
    " tfn.numpy.sqrt(n)), choose buckets between which it changes, or declare what sizes have in "
    "common: Buckets(..., constraints='n % 3 == 0')"
)


def _copied(x: Any, shape: Sequence[int], part: Sequence[int]) -> Any:
    """An array of a shape that has a part of another one at its beginning, and zeros after it."""
    installed = runtime.installed()
    data = installed.read(x)[tuple(map(slice, part))]
    bytes_ = np.zeros(prod(shape) * data.dtype.itemsize + ALIGNMENT_BYTES, np.uint8)
    begin = -bytes_.ctypes.data % ALIGNMENT_BYTES
    rows = bytes_[begin : begin + prod(shape) * data.dtype.itemsize]
    wide = rows.view(data.dtype).reshape(shape)
    wide[tuple(map(slice, part))] = data
    return installed.weaken(installed.adopt(wide), x.weak_type)


def show(numbers: Numbers) -> str:
    """Sizes as messages show them."""
    return ", ".join(f"{s} = {n}" for s, n in numbers.items())


def _fits(
    whole: Unified, trace: Callable[[Numbers], Any], scope: Scope, ranges: dict[str, range]
) -> dict[str, range]:
    """The sizes of a bucket for which the unified function is what Python makes of it.

    Its sizes and bounds are linear in each size of an argument: what holds at the corners of a box
    holds in all of it.  Where an end of a bucket is special, as size 1 often is, it is left out.
    """
    largest = {s: r[-1] for s, r in ranges.items()}
    seen: dict[tuple[int, ...], bool] = {}

    def holds(**numbers: int) -> bool:
        at = {s: numbers[s] for s in ranges}
        key = tuple(at.values())
        if key not in seen:
            seen[key] = not scope.allows(at) or whole.holds(at, trace)
        return seen[key]

    fits = {}
    for s, r in ranges.items():
        first = [n for n in r if scope.allows({**largest, s: n})]
        low = next((n for n in first[:TRIES] if holds(**{**largest, s: n})), None)
        if low is None:
            low = next((n for n in first[TRIES::TRIES] if holds(**{**largest, s: n})), None)
        if low is None:
            return {}
        fits[s] = range(low, r[-1] + 1)
    for _ in range(TRIES):
        corners = [dict(zip(fits, at)) for at in product(*({r[0], r[-1]} for r in fits.values()))]
        # Beside the ends what is halved is rounded in another way.
        beside = [{**largest, s: n} for s, r in fits.items() for n in (*r[1:2], *r[-2:-1])]
        if all(holds(**at) for at in (*corners, *beside)):
            return fits
        if min(map(len, fits.values())) == 1:
            break
        fits = {s: r[1:] for s, r in fits.items()}  # it may not be where all sizes are small
    return {}


def bucketed(
    function: Callable[..., Any] | None, buckets: Any, options: tuple[Any, ...], shardings: Any
) -> Any:
    """The function with buckets, or what gives it of the function; see `tfn.jit`.

    Raises:
        ArgumentError: if shardings are asked for too.
    """
    if any(x is not None for x in shardings):
        raise ArgumentError(
            "a function with buckets runs on the default device",
            got="in_shardings, out_shardings or device",
            hint="leave them out, or pad the arrays before they are divided",
        )
    names = "static_argnums", "static_argnames", "donate_argnums", "donate_argnames"
    chosen = dict(zip(names, options, strict=True))
    if function is None:
        return lambda f: Bucketed(f, buckets, chosen)
    return Bucketed(function, buckets, chosen)
