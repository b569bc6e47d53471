"""Validation of untrusted rows: everything that a type rule takes for granted is checked.

A type rule (`trace.primitives`) refuses errors that users can make.  It assumes that an operation
has the right number of sources, and an argument of its class with integers where integers belong:
code that builds graphs sees to that.  Serialized bytes are untrusted, so it is checked here, before
a node is made:

    rows      each is an operation on earlier rows, with an argument of its class
    scopes    a function refers to its own parameters and to no others
    built     types fit together, and sizes are possible

Every check takes time linear in the number of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from tfn.dtypes import BOOL, SHORT
from tfn.errors import ExportError, TfnError
from tfn.exporting.symbolic_dims import Polynomial, Ratio
from tfn.extend import (
    SEVERAL,
    Axis,
    Collective,
    Exchange,
    Op,
    Partition,
    UOp,
    argument,
    frozen,
    regions,
    shown,
)
from tfn.lax import FftType
from tfn.trace.op import BINARY, COMPARE, MONOIDS, UNARY
from tfn.trace.sharding import OPEN

SIZE_LIMIT = 2**63 - 1
"""The size of an axis, and of an array in bytes: the range of a 64-bit index."""
DEVICE_LIMIT = 1 << 20
"""Devices along an axis of a mesh that are listed by number."""
RANK_LIMIT = 64
"""Axes of an array, as in NumPy."""
DEGREE_LIMIT = 8
"""Factors of a product: a size is a product of few axes."""
SYMBOL_LIMIT = 3
"""Symbols of a function: the number of sizes at which to trace it grows with their square."""
TERM_LIMIT = 256
"""Products in a polynomial."""
SHARED_LIMIT = 1 << 22
"""Rows of all functions, a shared row counted for each: checking them takes a second or two."""

Row = tuple[Op, tuple[int, ...], Any]
Symbols = frozenset[str]
Check = Callable[[Any, Symbols], bool]
"""Whether a value is of a kind; sizes may be polynomials in these symbols."""


# Kinds of values.


def _plain(low: int, high: int = SIZE_LIMIT) -> Check:
    """An integer in a range, which depends on no size."""
    return lambda x, symbols: type(x) is int and low <= x <= high


def _sized(low: int) -> Check:
    """An integer in a range, or a polynomial."""

    def check(x: Any, symbols: Symbols) -> bool:
        if type(x) is int:
            return low <= x <= SIZE_LIMIT
        return bool(symbols) and _polynomial(x, symbols)

    return check


def _polynomial(p: object, symbols: Symbols) -> bool:
    """A polynomial in these symbols, as `Polynomial.of` makes it."""
    if type(p) is not Polynomial or type(p.terms) is not tuple or len(p.terms) > TERM_LIMIT:
        return False
    if type(p.divisor) is not int or not 1 <= p.divisor <= SIZE_LIMIT:
        return False
    for term in p.terms:
        if type(term) is not tuple or len(term) != 2 or type(term[0]) is not tuple:
            return False
        product, factor = term
        known = all(type(s) is str and s in symbols for s in product)
        if len(product) > DEGREE_LIMIT or not known or type(factor) is not int:
            return False
        if not 0 < abs(factor) <= SIZE_LIMIT:
            return False
    return bool(p == Polynomial.of(p.fractions))


def _each(check: Check, most: int = RANK_LIMIT) -> Check:
    """A tuple of values of a kind."""

    def each(x: Any, symbols: Symbols) -> bool:
        return type(x) is tuple and len(x) <= most and all(check(item, symbols) for item in x)

    return each


def _one_of(*values: object) -> Check:
    return lambda x, symbols: type(x) is type(values[0]) and x in values


def _dtype(x: object, symbols: Symbols) -> bool:
    return isinstance(x, np.dtype) and x in SHORT


def _optional(check: Check) -> Check:
    return lambda x, symbols: x is None or check(x, symbols)


def _text(x: object, symbols: Symbols) -> bool:
    return type(x) is str


def _axes(x: Any, symbols: Symbols) -> bool:
    """Different axes."""
    return _each(_plain(0, RANK_LIMIT))(x, symbols) and len({*x}) == len(x)


def _pairs(x: object, symbols: Symbols) -> bool:
    """Two integers for each axis."""
    size = _sized(-SIZE_LIMIT)
    return _each(lambda pair, symbols: _each(size, 2)(pair, symbols) and len(pair) == 2)(x, symbols)


def _parameters(x: object, symbols: Symbols) -> bool:
    """Parameters in the order of their numbers."""
    param = _record(argument.Param)
    return type(x) is tuple and all(param(p, symbols) and p.index == i for i, p in enumerate(x))


def _record(kind: type[Any]) -> Check:
    """A record of a class, each field of which is of its kind."""
    checks = FIELDS[kind]

    def check(x: Any, symbols: Symbols) -> bool:
        if type(x) is not kind:
            return False
        return all(fits(getattr(x, name), symbols) for name, fits in checks.items())

    return check


def _constant(x: Any, symbols: Symbols) -> bool:
    """The bits of one value; at many sizes they may be a number that depends on them."""
    if type(x) is not argument.Const or not _dtype(x.dtype, symbols) or not shape(x.shape, symbols):
        return False
    bits: Any = x.bits
    if type(bits) is Ratio:
        known = bool(symbols) and _polynomial(bits.polynomial, symbols)
        return known and type(bits.over) is int and abs(bits.over) <= SIZE_LIMIT
    most = 1 if x.dtype == BOOL else (1 << 8 * x.dtype.itemsize) - 1
    return type(bits) is int and 0 <= bits <= most


def _collective(x: Any, symbols: Symbols) -> bool:
    """An exchange among groups of one size, which have each device once."""
    if not _record(Collective)(x, symbols):
        return False
    devices = range(x.axis.size)
    if x.groups is not None:
        members = sorted(n for group in x.groups for n in group)
        sizes = {len(group) for group in x.groups}
        if len(sizes) != 1 or len(members) != len(devices) or members != list(devices):
            return False
    ends = [list(end) for end in zip(*x.pairs)]
    return all(len({*end}) == len(end) and all(n in devices for n in end) for end in ends)


def _partition(x: Any, symbols: Symbols) -> bool:
    """A division by axes of its mesh, each of which divides one axis at most."""
    if not _record(Partition)(x, symbols):
        return False
    mesh = [axis.name for axis in x.mesh]
    used = [name for names in x.spec if names != OPEN for name in names]
    named = len({*mesh}) == len(mesh) and len({*used}) == len(used)
    known = {*used, *x.manual, *x.lanes, *x.explicit, *x.unreduced, *x.reduced} <= {*mesh} and {
        *x.unchecked
    } <= {*x.mesh}
    return named and known and prod([axis.size for axis in x.mesh]) <= SIZE_LIMIT


def _nothing(x: object, symbols: Symbols) -> bool:
    return x is None


shape: Check = _each(_sized(0))
_positive: Check = _each(_sized(1))
_count: Check = _plain(0)
FIELDS: dict[type[Any], dict[str, Check]] = {
    argument.Param: {"index": _count, "shape": shape, "dtype": _dtype},
    argument.Iota: {"size": _sized(0), "dtype": _dtype},
    argument.Pad: {"low": shape, "high": shape, "interior": shape},
    argument.Shrink: {"start": shape, "stop": shape, "step": _positive},
    argument.Reduce: {"op": _one_of(*MONOIDS), "axes": _axes, "index": _optional(_dtype)},
    argument.Dot: {
        "contract_a": _axes,
        "contract_b": _axes,
        "batch_a": _axes,
        "batch_b": _axes,
        "dtype": _dtype,
        "tf32": _one_of(False, True),
    },
    argument.Conv: {
        "strides": _positive,
        "padding": _pairs,
        "dilation_x": _positive,
        "dilation_w": _positive,
        "groups": _sized(1),
        "batch_groups": _sized(1),
        "dtype": _dtype,
        "tf32": _one_of(False, True),
    },
    argument.Fft: {"kind": _one_of(*FftType), "lengths": _positive},
    argument.Gather: {"batch": _plain(0, RANK_LIMIT), "sizes": shape},
    argument.Scatter: {
        "batch": _plain(0, RANK_LIMIT),
        "op": _one_of(*MONOIDS, Op.WHERE),
        "distinct": _one_of(False),
        "whole": _one_of(False),
    },
    argument.Sort: {"keys": _plain(1), "shared": _one_of(False), "largest": _optional(_sized(0))},
    argument.Function: {"params": _parameters},
    argument.Scan: {
        "length": _sized(0),
        "reverse": _one_of(False, True),
        "consts": _count,
        "carries": _count,
        "associative": _one_of(False, True),
    },
    argument.While: {"cond_consts": _count, "body_consts": _count},
    argument.Cond: {"branches": _plain(1)},
    argument.Call: {"name": _text},
    Axis: {"name": _text, "size": _plain(1)},
    Collective: {
        "kind": _one_of(*Exchange),
        "axis": lambda x, symbols: _record(Axis)(x, symbols),
        "op": _one_of(*MONOIDS),
        "groups": _optional(_each(_each(_count, DEVICE_LIMIT), DEVICE_LIMIT)),
        "pairs": _each(
            lambda x, symbols: _each(_count, 2)(x, symbols) and len(x) == 2, DEVICE_LIMIT
        ),
        "invariant": _one_of(False, True),
    },
    Partition: {
        "mesh": _each(lambda x, symbols: _record(Axis)(x, symbols)),
        "spec": _each(_each(_text)),
        "manual": _each(_text),
        "unchecked": _each(lambda x, symbols: _record(Axis)(x, symbols)),
        "lanes": _each(_text),
        "explicit": _each(_text),
        "unreduced": _each(_text),
        "reduced": _each(_text),
    },
}
"""The kinds of the fields of arguments."""


def _key(x: object) -> bool:
    return type(x) is str or (type(x) is int and abs(x) <= SIZE_LIMIT)


def path(x: Any, symbols: Symbols) -> bool:
    """A path of an input: the position or the name of an argument, then keys."""
    if type(x) is not tuple or not x or not all(map(_key, x)):
        return False
    return type(x[0]) is str or x[0] >= 0


def entry(x: Any, symbols: Symbols) -> bool:
    """An input: its path, shape and dtype, and whether it is weak."""
    checks = (path, shape, _dtype, _one_of(False, True))
    return type(x) is tuple and len(x) == 4 and all(f(y, symbols) for f, y in zip(checks, x))


def array(x: Any, symbols: Symbols) -> bool:
    """An array: its shape, its dtype, and the bytes of its elements."""
    if type(x) is not tuple or len(x) != 3 or not (shape(x[0], symbols) and _dtype(x[1], symbols)):
        return False
    fits = type(x[2]) is bytes and len(x[2]) == prod(x[0]) * x[1].itemsize
    return fits and (x[1] != BOOL or np.frombuffer(x[2], np.uint8).max(initial=0) <= 1)


def outline(x: object) -> bool:
    """A tree of results, as `portable.Outline`."""
    if x is None or type(x) is int:
        return True
    if type(x) is not tuple or len(x) != 3 or type(x[1]) is not tuple or type(x[2]) is not tuple:
        return False
    kind, keys, children = x
    named = kind == "dict" and all(map(_key, keys)) and len({*keys}) == len(keys) == len(children)
    return (named or (kind in ("list", "tuple") and not keys)) and all(map(outline, children))


def signature(inputs: Any, arrays: Any, outputs: Any, weak: Any, constraints: Any) -> Symbols:
    """Checks a signature, and returns its symbols.

    Raises:
        ExportError: naming the part that is malformed.
    """
    symbols = frozenset(
        s
        for row in inputs
        for size in row[1]
        if type(size) is Polynomial
        for product, _ in size.terms
        for s in product
    )
    paths = {row[0] for row in inputs}
    if len(symbols) > SYMBOL_LIMIT or not all(map(str.isidentifier, symbols)):
        raise refused(f"the sizes {', '.join(map(repr, symbols))}"[:80])
    if not _every(inputs, entry, symbols) or len(paths) != len(inputs):
        raise refused("its inputs")
    if not _every(arrays, array, frozenset()):
        raise refused("its arrays")
    if not outline(outputs) or not _every(weak, _one_of(False, True), symbols):
        raise refused("its results")
    if not _every(constraints, _text, symbols) or (constraints and not symbols):
        raise refused("its constraints")
    return symbols


def _every(x: Any, check: Check, symbols: Symbols) -> bool:
    return type(x) is tuple and all(check(item, symbols) for item in x)


# Operations.


@frozen
class Form:
    """The number of sources of an operation, and the kind of its argument."""

    least: int
    most: int | None
    argument: Check


def _of(sources: int, argument: Check = _nothing) -> Form:
    return Form(sources, sources, argument)


def _from(least: int, argument: Check = _nothing) -> Form:
    return Form(least, None, argument)


FORMS: dict[Op, Form] = {
    Op.CONST: _of(0, _constant),
    Op.PARAM: _of(0, _record(argument.Param)),
    Op.IOTA: _of(0, _record(argument.Iota)),
    **dict.fromkeys(UNARY | {Op.REAL, Op.IMAG, Op.DETACH, Op.GBARRIER}, _of(1)),
    **dict.fromkeys(BINARY | COMPARE | {Op.COMPLEX, Op.LDEXP}, _of(2)),
    **dict.fromkeys((Op.WHERE, Op.FMA), _of(3)),
    Op.THREEFRY: _of(4, _plain(0, 1)),
    Op.CAST: _of(1, _dtype),
    Op.BITCAST: _of(1, _dtype),
    Op.RESHAPE: _of(1, shape),
    Op.PERMUTE: _of(1, _axes),
    Op.EXPAND: _of(1, shape),
    Op.PAD: _of(2, _record(argument.Pad)),
    Op.SHRINK: _of(1, _record(argument.Shrink)),
    Op.FLIP: _of(1, _axes),
    Op.CONCAT: _from(1, _plain(0, RANK_LIMIT)),
    Op.REDUCE: _of(1, _record(argument.Reduce)),
    Op.DOT: _of(2, _record(argument.Dot)),
    Op.CONV: _of(2, _record(argument.Conv)),
    Op.FFT: _of(1, _record(argument.Fft)),
    Op.GATHER: _of(2, _record(argument.Gather)),
    Op.SCATTER: _of(3, _record(argument.Scatter)),
    Op.SORT: _from(1, _record(argument.Sort)),
    Op.GET: _of(1, _count),
    Op.AFTER: _from(1),
    Op.FUNCTION: _from(0, _record(argument.Function)),
    Op.SCAN: _from(1, _record(argument.Scan)),
    Op.WHILE: _from(2, _record(argument.While)),
    Op.COND: _from(2, _record(argument.Cond)),
    Op.CALL: _from(1, _record(argument.Call)),
    Op.AXIS: _of(0, _record(Axis)),
    Op.COLLECTIVE: _of(2, _collective),
    **dict.fromkeys((Op.SHARD, Op.UNSHARD, Op.CONSTRAIN), _of(1, _partition)),
}
"""The operations of a closed function that can be serialized."""


def refused(got: str) -> ExportError:
    """The error for bytes that are undamaged, but no function."""
    return ExportError(
        "serialized bytes are not a function", got=got, hint="serialize it again with this tfn"
    )


def rows(table: Any, symbols: Symbols = frozenset()) -> tuple[Row, ...]:
    """Checks the rows of a closed function, and returns them; sizes may be polynomials.

    Raises:
        ExportError: naming a row that is no operation on earlier rows, or has a wrong argument.
    """
    if type(table) not in (tuple, list) or not table:
        raise refused("no rows")
    used = bytearray(len(table))
    for i, row in enumerate(table):
        if not (type(row) is tuple and len(row) == 3 and _row(i, row, table, symbols)):
            raise refused(f"row {i}: {row[0] if type(row) is tuple and row else row!r}"[:80])
        for s in row[1]:
            used[s] = True
    if table[-1][0] is not Op.FUNCTION or used.count(0) > 1:
        raise refused("the last row is no function of all others")
    scopes(table)
    return tuple(table)


def _row(i: int, row: tuple[Any, Any, Any], table: Sequence[Any], symbols: Symbols) -> bool:
    """Whether a row is well formed, given that earlier rows are."""
    op, src, arg = row
    form = FORMS.get(op) if type(op) is Op else None
    if form is None or type(src) is not tuple or not form.argument(arg, symbols):
        return False
    counts = regions.ROWS[op].counts(arg, len(src)) if op in regions.ROWS else [0, 0]
    least = arg.keys if op is Op.SORT else form.least
    if min(counts) < 0 or len(src) < least or (form.most is not None and len(src) > form.most):
        return False
    if not all(type(s) is int and 0 <= s < i for s in src):
        return False
    functions = range(counts[0], counts[0] + counts[1])
    for at, s in enumerate(src):
        other = table[s][0]
        if (other is Op.FUNCTION) != (at in functions) or (other in SEVERAL) != (op is Op.GET):
            return False
    return True


def scopes(table: Sequence[Row]) -> None:
    """Refuse a function that refers to parameters of another function.

    Raises:
        ExportError: naming it; or if functions share so many rows that the check would take long.
    """
    budget = SHARED_LIMIT
    open_ = bytearray(len(table))  # whether a row depends on parameters
    for i, (op, src, arg) in enumerate(table):
        open_[i] = op is Op.PARAM or (op is not Op.FUNCTION and any(open_[s] for s in src))
        if op is not Op.FUNCTION:
            continue
        seen: set[int] = set()
        stack = list(src)
        while stack:
            s = stack.pop()
            if s in seen or not open_[s]:
                continue
            seen.add(s)
            below = table[s]
            if below[0] is Op.PARAM:
                params = arg.params
                if below[2].index >= len(params) or below[2] != params[below[2].index]:
                    raise refused(f"row {i}: a function with a parameter of another")
            stack += below[1]
        budget -= len(seen)
        if budget < 0:
            raise refused("functions that share too many operations")


# Types.


def built(table: Iterable[Row]) -> UOp:
    """Builds the function of well-formed rows whose sizes are integers.

    Raises:
        ExportError: naming a row whose operands do not fit.
    """
    nodes: list[UOp] = []
    for i, (op, src, arg) in enumerate(table):
        sources = tuple([nodes[s] for s in src])
        try:
            node = UOp(op, sources, arg)
        except Exception as error:  # of many classes: a type rule trusts code that builds graphs
            what = error.what if isinstance(error, TfnError) else "operands that do not fit"
            kinds = ", ".join(map(shown, sources[:4]))
            raise refused(f"row {i}: {op.value} of {kinds}: {what}"[:300]) from None
        if len(node.shape) > RANK_LIMIT or prod(node.shape) * node.dtype.itemsize > SIZE_LIMIT:
            raise refused(f"row {i}: {op.value}, whose result is larger than an array can be")
        nodes.append(node)
    return nodes[-1]
