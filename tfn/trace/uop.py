"""The node of graphs: immutable, hash-consed, typed when it is made.

Two nodes with the same op, sources and argument are the same object, so equality is identity.
Shape and dtype are derived from `primitives` when a node is made: a node that does not type
cannot exist.  A UOp has operators only; everything else is a function of nodes.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import lru_cache, wraps
from math import copysign, prod
from typing import Any, TypeVar, cast

import numpy as np

from tfn.dtypes import SIGNED, DType, width_bits
from tfn.trace import casts, source_lines
from tfn.trace.argument import Const
from tfn.trace.op import Op, Shape
from tfn.trace.primitives import PRIMITIVES

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Key = tuple[Hashable, ...]
"""The hash key of a node, or of a remembered result."""
Number = complex | np.generic | np.ndarray
"""A scalar of Python (bool, int and float are `complex` too) or NumPy, or an array of one."""
MAX_FACTS = 32
"""The results of `remembered` functions that a node holds before they are cleared: a function is
seldom batched by more sizes, or differentiated by more choices of operands; more would only hold
memory for as long as the node lives."""


class _Entry(weakref.ref["UOp"]):
    """A weak reference with the key of its row in the table."""

    __slots__ = ("key",)
    key: int | Key


# The table owns neither nodes nor their fields: an argument may be a function of the user, which
# may refer to the node, and would keep it alive for ever.  So its keys are hashes of
# (op, src, arg).  Two nodes may have one hash, as those of -1 and -2 have: then the second one goes
# to _COLLIDED, whose keys are the triples.
_TABLE: dict[int | Key, _Entry] = {}
_COLLIDED: dict[int | Key, _Entry] = {}


def _forget(
    entry: _Entry,
    table: dict[int | Key, _Entry] = _TABLE,
    collided: dict[int | Key, _Entry] = _COLLIDED,
) -> None:
    key = entry.key
    if table.get(key) is entry:
        del table[key]
    elif collided.get(key) is entry:
        del collided[key]


class UOp:
    """One operation on the values of its sources.

    Attributes:
        op: the operation.
        src: its operands.
        arg: its static argument, hashable; see `trace.argument`.
        shape: of the value; empty for a FUNCTION, and for an op of several results.
        dtype: of the value.
        facts: the results of `remembered` functions; unset until one is called.
    """

    __slots__ = ("op", "src", "arg", "shape", "dtype", "facts", "__weakref__")
    op: Op
    src: tuple[UOp, ...]
    arg: Any
    shape: Shape
    dtype: DType
    facts: dict[Key, object]

    def __new__(cls, op: Op, src: tuple[UOp, ...] = (), arg: object = None) -> UOp:
        """The node, which may exist already; raises the errors of the type rule of `op`."""
        key = hash((op, src, arg))
        entry = _TABLE.get(key)
        if entry is not None:
            node = entry()
            if node is not None and node.op is op and node.src == src and node.arg == arg:
                return node
        if _COLLIDED:
            entry = _COLLIDED.get((op, src, arg))
            node = None if entry is None else entry()
            if node is not None:
                return node
        shape, dtype = PRIMITIVES[op].infer(src, arg)
        self = object.__new__(cls)
        _put_op(self, op)
        _put_src(self, src)
        _put_arg(self, arg)
        _put_shape(self, shape)
        _put_dtype(self, dtype)
        entry = _Entry(self, _forget)
        entry.key = key
        other = _TABLE.setdefault(key, entry)
        return self if other is entry else _resolved(self, entry, other)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a UOp is immutable: cannot set {name}")

    def __reduce__(self) -> tuple[Callable[[Rows], UOp], tuple[Rows]]:
        return from_rows, (rows(self),)

    def __deepcopy__(self, memo: object) -> UOp:
        return self

    def __copy__(self) -> UOp:
        return self

    def __repr__(self) -> str:
        arg = "" if self.arg is None else f" {self.arg}"
        return f"<{self.op.value}{arg} {self.dtype}{list(self.shape)}>"

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    # Operators: both sides of one shape and dtype; a Python scalar takes those of the node.

    def __neg__(self) -> UOp:
        return UOp(Op.NEG, (self,))

    def __invert__(self) -> UOp:
        return UOp(Op.NOT, (self,))

    def __add__(self, other: UOp | complex) -> UOp:
        return UOp(Op.ADD, (self, _like(self, other)))

    def __radd__(self, other: complex) -> UOp:
        return UOp(Op.ADD, (_like(self, other), self))

    def __sub__(self, other: UOp | complex) -> UOp:
        return UOp(Op.SUB, (self, _like(self, other)))

    def __rsub__(self, other: complex) -> UOp:
        return UOp(Op.SUB, (_like(self, other), self))

    def __mul__(self, other: UOp | complex) -> UOp:
        return UOp(Op.MUL, (self, _like(self, other)))

    def __rmul__(self, other: complex) -> UOp:
        return UOp(Op.MUL, (_like(self, other), self))

    def __truediv__(self, other: UOp | complex) -> UOp:
        return UOp(Op.DIV, (self, _like(self, other)))

    def __rtruediv__(self, other: complex) -> UOp:
        return UOp(Op.DIV, (_like(self, other), self))

    def __floordiv__(self, other: UOp | complex) -> UOp:
        return UOp(Op.FLOORDIV, (self, _like(self, other)))

    def __mod__(self, other: UOp | complex) -> UOp:
        return UOp(Op.MOD, (self, _like(self, other)))

    def __and__(self, other: UOp | complex) -> UOp:
        return UOp(Op.AND, (self, _like(self, other)))

    def __or__(self, other: UOp | complex) -> UOp:
        return UOp(Op.OR, (self, _like(self, other)))

    def __xor__(self, other: UOp | complex) -> UOp:
        return UOp(Op.XOR, (self, _like(self, other)))

    def __lshift__(self, other: UOp | complex) -> UOp:
        return UOp(Op.SHL, (self, _like(self, other)))

    def __rshift__(self, other: UOp | complex) -> UOp:
        return UOp(Op.SHR, (self, _like(self, other)))

    def __lt__(self, other: UOp | complex) -> UOp:
        return UOp(Op.LT, (self, _like(self, other)))

    def __le__(self, other: UOp | complex) -> UOp:
        return UOp(Op.LE, (self, _like(self, other)))

    def __gt__(self, other: UOp | complex) -> UOp:
        return UOp(Op.LT, (_like(self, other), self))

    def __ge__(self, other: UOp | complex) -> UOp:
        return UOp(Op.LE, (_like(self, other), self))


def _resolved(new: UOp, entry: _Entry, other: _Entry) -> UOp:
    """The node to use if the table already has an entry of the hash of a new node."""
    node, table = other(), _TABLE
    if node is not None:
        if (node.op, node.src, node.arg) == (new.op, new.src, new.arg):
            return node  # another thread has been faster
        entry.key, table = (new.op, new.src, new.arg), _COLLIDED
        node = table.setdefault(entry.key, entry)()
    if node is None:  # dead, and not yet removed by its callback
        table[entry.key] = entry
    return node or new


# A node is made in 2 us, so its five fields are set by the shortest way past `__setattr__`.
_put_op, _put_src, _put_arg, _put_shape, _put_dtype = (
    UOp.__dict__[name].__set__ for name in ("op", "src", "arg", "shape", "dtype")
)
_put_facts = UOp.__dict__["facts"].__set__


def remembered(find: F) -> F:
    """Memoizes a function of a node, and of hashable values, in the node itself.

    A table of its own would keep the node alive, and with it arrays and functions of the user.

    Example:
        >>> from tfn.dtypes import FLOAT32
        >>> @remembered
        ... def length(node, unit):
        ...     print("computed")
        ...     return len(node.src) * unit
        >>> x = const(2.0, FLOAT32)
        >>> total = x + x * x
        >>> length(total, 3), length(total, 3)
        computed
        (6, 6)
    """

    @wraps(find)
    def lookup(node: UOp, *rest: Hashable) -> object:
        facts = getattr(node, "facts", None)
        if facts is None:
            facts = {}
            _put_facts(node, facts)
        key = (find, *rest)
        result = facts.get(key, facts)
        if result is facts:
            if len(facts) >= MAX_FACTS:
                facts.clear()
            result = facts[key] = find(node, *rest)
        return result

    return cast(F, lookup)


def const(value: Number, dtype: DType, shape: Shape = ()) -> UOp:
    """A node that is `value` everywhere; wraps integers around as hardware does."""
    if dtype.kind in "iu":
        integer: Any = value  # complex values have no integers, and raise here
        return _integer(int(integer), dtype, shape)
    if type(value) is float:
        return _float(value, copysign(1.0, value), dtype, shape)
    return _rounded(value, dtype, shape)


_SIGNED_BITS = {dtype: width_bits(dtype) for dtype in SIGNED}


def const_value(u: UOp) -> int:
    """The value of an integer or boolean CONST."""
    bits: int = u.arg.bits
    width = _SIGNED_BITS.get(u.dtype, 0)
    return bits - (1 << width) if width and bits >> (width - 1) else bits


# Index arithmetic and derivatives use the same few numbers all the time.


@lru_cache(maxsize=1 << 12)
def _integer(value: int, dtype: DType, shape: Shape) -> UOp:
    bits = value & ((1 << (8 * dtype.itemsize)) - 1)
    return UOp(Op.CONST, (), Const(dtype, bits, shape))


@lru_cache(maxsize=1 << 12)
def _float(value: float, sign: float, dtype: DType, shape: Shape) -> UOp:
    return _rounded(value, dtype, shape)  # `sign` keeps -0.0 and 0.0 apart in the cache


def _rounded(value: Number, dtype: DType, shape: Shape) -> UOp:
    with np.errstate(over="ignore"):  # values beyond the largest one become infinite
        data = casts.cast(dtype, np.asarray(value))
    bits = int.from_bytes(data.tobytes(), sys.byteorder)
    return UOp(Op.CONST, (), Const(dtype, bits, shape))


def reshaped(u: UOp, shape: Shape) -> UOp:
    """A constant in another shape: the same bits."""
    return UOp(Op.CONST, (), Const(u.dtype, u.arg.bits, shape))


def _like(node: UOp, value: UOp | complex) -> UOp:
    return value if isinstance(value, UOp) else const(value, node.dtype, node.shape)


Rows = list[tuple[Op, tuple[int, ...], Any]]


def rows(root: UOp) -> Rows:
    """A graph as a list, nested functions too: op, indices of the sources before it, argument."""
    index: dict[UOp, int] = {}
    rows: Rows = []
    stack = [root]
    while stack:
        node = stack[-1]
        waiting = [s for s in node.src if s not in index]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        if node not in index:
            index[node] = len(rows)
            rows.append((node.op, tuple([index[s] for s in node.src]), node.arg))
    return rows


def from_rows(rows: Rows) -> UOp:
    """The graph of a list whose last row is the root."""
    nodes: list[UOp] = []
    for op, src, arg in rows:
        nodes.append(UOp(op, tuple([nodes[i] for i in src]), arg))
    return nodes[-1]


def walk(roots: Iterable[UOp], enter: Callable[[UOp], bool] | None = None) -> Iterator[UOp]:
    """Every node under the roots, sources first (post-order), without recursion.

    The body of a nested FUNCTION is not entered (roots are), nor are nodes that `enter` refuses.
    """
    first = list(roots)
    seen: set[UOp] = set()
    stack: list[Any] = first[::-1]
    while stack:
        node = stack.pop()
        if node is None:  # all sources of the node below have been visited
            yield stack.pop()
        elif node not in seen:
            seen.add(node)
            opened = node.src and (node.op is not Op.FUNCTION or node in first)
            if opened and (enter is None or enter(node)):
                stack += (node, None)
                for s in node.src[::-1]:
                    if s not in seen:
                        stack.append(s)
            else:
                yield node


@lru_cache(maxsize=64)
def nodes(root: UOp) -> tuple[UOp, ...]:
    """The nodes under a root in the order of `walk`, cached: passes walk one body many times."""
    return tuple(walk([root]))


def rebuild(node: UOp, src: tuple[UOp, ...]) -> UOp:
    """The same operation on other sources; the very same node if none has changed."""
    if src == node.src:
        return node
    made = UOp(node.op, src, node.arg)
    if source_lines.enabled():
        source_lines.inherit(made, node)
    return made


def mapped(
    roots: Iterable[UOp],
    rule: Callable[[UOp, UOp], UOp],
    nested: Callable[[UOp], UOp] | None = None,
    order: Iterable[UOp] | None = None,
) -> list[UOp]:
    """The roots, where each node becomes what a rule says of it and of it on its new sources.

    Args:
        roots: graphs.
        rule: from a node, and the same operation on what its sources have become, to a node.
        nested: from a FUNCTION to another one; it stays if None.
        order: the nodes under the roots, sources first, if they are known.
    """
    roots, new = list(roots), dict[UOp, UOp]()
    for node in order or walk(roots):
        if node.op is Op.FUNCTION:
            new[node] = nested(node) if nested else node
            continue
        new[node] = rule(node, rebuild(node, tuple([new[s] for s in node.src])))
        if source_lines.enabled():
            source_lines.inherit(new[node], node)
    return [new[root] for root in roots]


def substitute(
    roots: Iterable[UOp], replace: Mapping[UOp, UOp], order: Iterable[UOp] | None = None
) -> list[UOp]:
    """The roots with nodes replaced; nodes that do not depend on them stay the same objects.

    `order` may give the nodes under the roots, sources first, if they are known.
    """
    roots = list(roots)
    new: dict[UOp, UOp] = dict(replace)
    for node in order or walk(roots, lambda node: node not in replace):
        if node not in new:
            closed = node.op is Op.FUNCTION and node not in roots  # its parameters are its own
            src = node.src if closed else tuple([new.get(s, s) for s in node.src])
            new[node] = rebuild(node, src)
    if source_lines.enabled():
        source_lines.follow(new)
    return [new[root] for root in roots]


def table_size() -> int:
    """The number of nodes that are alive."""
    return len(_TABLE) + len(_COLLIDED)


def field(node: UOp, kind: type[T]) -> T:
    """The argument of a node, as the class that its op is known to carry."""
    return cast(T, node.arg)
