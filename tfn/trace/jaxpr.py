"""Closed functions: graphs over numbered parameters, and how they print.

`close` turns graphs over leaves into a Jaxpr.  What a function captured - arrays, or values of an
outer trace - becomes a parameter like the others, so two functions that differ only in names or
in captured values close to the same object, and identity is the key of every later cache.

    close([mul(leaf_x, leaf_w)], [leaf_x])  ->  { lambda ; a:f32[] b:f32[]. ... }, [leaf_w]
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass

import numpy as np

from tfn._support.frozen import frozen
from tfn._support.validate import shown
from tfn.dtypes import SHORT
from tfn.trace.argument import Const, Function, Param
from tfn.trace.build import call, several
from tfn.trace.op import SEVERAL, Op
from tfn.trace.uop import UOp, substitute, walk


@frozen
class Jaxpr:
    """A FUNCTION node: `params` by position, one output or more; prints as JAX's jaxprs do.

    Attributes:
        captured: the number of last parameters that are the same arrays in every call.

    Example:
        >>> import tfn
        >>> print(tfn.make_jaxpr(tfn.numpy.sin)(tfn.ShapeDtypeStruct((3,), "float32")))
        { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
    """

    function: UOp
    captured: int = 0

    @property
    def params(self) -> tuple[Param, ...]:
        """Position, shape and dtype of each parameter."""
        params: tuple[Param, ...] = self.function.arg.params
        return params

    @property
    def outputs(self) -> tuple[UOp, ...]:
        """The graphs of the results, over PARAM nodes."""
        return self.function.src

    def __str__(self) -> str:
        return print_jaxpr(self)

    def _repr_html_(self) -> str:
        """The same in a notebook, with types and parameters of ops in a lighter colour."""
        # Not by `html`, whose table of entities would take as long to load as this file.
        text = str(self).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return f"<pre>{re.sub(_QUIET, _LIGHT, text)}</pre>"


_QUIET = r"(:\w+\[[^\]\n]*\]|(?<=\w)\[[^\]\n]*\])"
"""Types of values, and arguments of ops in brackets."""

_LIGHT = r'<span style="opacity:.55">\1</span>'


def param(p: Param) -> UOp:
    """The node of a parameter."""
    return UOp(Op.PARAM, (), p)


def leaves(roots: Sequence[UOp]) -> list[UOp]:
    """The LEAF nodes under the roots, in the order of first use."""
    return [node for node in walk(roots) if node.op is Op.LEAF]


def close(outputs: Sequence[UOp], inputs: Sequence[UOp]) -> tuple[Jaxpr, list[UOp]]:
    """The closed function of `inputs`, then of what was captured; and the captured leaves.

    Leaves of one array become one parameter.
    """
    order: dict[UOp, int] = {leaf: i for i, leaf in enumerate(inputs)}
    captured: list[UOp] = []
    by_value: dict[int, int] = {}
    nodes = list(walk(outputs))
    for leaf in nodes:
        if leaf.op is not Op.LEAF or leaf in order:
            continue
        value = leaf.arg.value
        position = by_value.get(id(value)) if value is not None else None
        if position is None:
            position = len(inputs) + len(captured)
            captured.append(leaf)
            if value is not None:
                by_value[id(value)] = position
        order[leaf] = position
    first: dict[int, UOp] = {}
    for leaf, position in order.items():
        first.setdefault(position, leaf)
    params = tuple(Param(i, first[i].shape, first[i].dtype) for i in range(len(first)))
    replace = {leaf: param(params[i]) for leaf, i in order.items()}
    return Jaxpr(function(substitute(outputs, replace, nodes), params)), captured


def function(outputs: Sequence[UOp], params: tuple[Param, ...]) -> UOp:
    """The FUNCTION node of graphs over parameters."""
    return UOp(Op.FUNCTION, tuple(outputs), Function(params))


def inline(jaxpr: Jaxpr, operands: Sequence[UOp]) -> list[UOp]:
    """The outputs with the parameters replaced by operands."""
    replace = {param(p): u for p, u in zip(jaxpr.params, operands, strict=True)}
    return substitute(jaxpr.outputs, replace)


def alone(node: UOp) -> tuple[Jaxpr, list[UOp]]:
    """The closed function of a single op, which returns all its results; and its operands."""
    operands = [s for s in node.src if s.op is not Op.FUNCTION]
    params = [Param(i, s.shape, s.dtype) for i, s in enumerate(operands)]
    fresh = iter(params)
    src = tuple(s if s.op is Op.FUNCTION else param(next(fresh)) for s in node.src)
    over_params = UOp(node.op, src, node.arg)
    outputs = several(over_params) if node.op in SEVERAL else [over_params]
    return Jaxpr(function(outputs, tuple(params))), operands


def calling(jaxpr: Jaxpr, name: str) -> Jaxpr:
    """The function that does nothing but call another one."""
    params = jaxpr.params
    return Jaxpr(function(call(name, jaxpr.function, list(map(param, params))), params))


def called(outputs: Iterable[UOp]) -> dict[UOp, str]:
    """The functions that are called, with their names, which are numbered where two are equal."""
    name_of: dict[UOp, str] = {}
    times: dict[str, int] = {}
    for node in walk(outputs):
        if node.op is Op.CALL and node.src[0] not in name_of:
            name = node.arg.name
            times[name] = times.get(name, 0) + 1
            name_of[node.src[0]] = name if times[name] == 1 else f"{name}_{times[name]}"
    return name_of


def names(reserved: Iterable[str] = ()) -> Iterator[str]:
    """a, b, ..., z, aa, ab, ... without the reserved ones."""
    reserved, length = frozenset(reserved), 1
    while True:
        for i in range(26**length):
            name = "".join(chr(97 + i // 26**k % 26) for k in reversed(range(length)))
            if name not in reserved:
                yield name
        length += 1


def print_jaxpr(jaxpr: Jaxpr) -> str:
    """``{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }``, on several lines if long."""
    head, rows, results = equations(jaxpr)
    lines = [text for _, text in rows]
    if len(lines) <= 1:
        return f"{head} let {' '.join(lines)} in {results} }}".replace("let  in", "let in")
    body = "\n".join("    " + line.replace("\n", "\n    ") for line in lines)
    return f"{head} let\n{body}\n  in {results} }}"


def equations(jaxpr: Jaxpr) -> tuple[str, list[tuple[UOp, str]], str]:
    """The parts of a print: the parameters, each equation with its node, and the results."""
    name = called(jaxpr.outputs)
    fresh = names(name.values())
    name |= {param(p): next(fresh) for p in jaxpr.params}
    head = " ".join(f"{name[param(p)]}:{shown(param(p))}" for p in jaxpr.params)
    rows: list[tuple[UOp, str]] = []
    for node in walk(jaxpr.outputs):
        if node.op is Op.FUNCTION and node in name:
            rows.append((node, f"{name[node]} = {print_jaxpr(Jaxpr(node))}"))
        if node in name or node.op is Op.FUNCTION:
            continue
        if node.op is Op.CONST and node.shape == ():
            name[node] = literal(node.arg)
        elif node.op in SEVERAL:
            name[node] = next(fresh)
            rows.append((node, f"{name[node]} = {equation(node, name)}"))
        else:
            name[node] = next(fresh)
            rows.append((node, f"{name[node]}:{shown(node)} = {equation(node, name)}"))
    results = ", ".join(name[u] for u in jaxpr.outputs) + ("," if len(jaxpr.outputs) == 1 else "")
    return f"{{ lambda ; {head}." if head else "{ lambda ; .", rows, f"({results})"


def equation(node: UOp, name: dict[UOp, str]) -> str:
    """The right side of one line: ``mul a b``, ``reshape[(3, 1)] a``.

    The functions of a loop are printed inside the brackets, on lines of their own; of a call only
    the name of its function.
    """
    if node.op is Op.CONST:
        return f"full[{node.shape}] {literal(node.arg)}"
    arg = name[node.src[0]] if node.op is Op.CALL else argument(node.arg)
    bodies = [print_jaxpr(Jaxpr(s)) for s in node.src if s.op is Op.FUNCTION]
    if bodies and node.op is not Op.CALL:
        inside = ",\n".join([arg, *bodies]).replace("\n", "\n  ")
        arg = f"\n  {inside}\n"
    sources = " ".join(name[s] for s in node.src if s.op is not Op.FUNCTION)
    return f"{node.op.value}{f'[{arg}]' if arg else ''} {sources}".rstrip()


def literal(value: Const) -> str:
    """A constant as Python writes it: ``1.0``, ``True``, ``nan``."""
    number = value.value
    if value.dtype.kind == "V":
        number = np.float32(number)
    return f"{number.item()!r}:{SHORT[value.dtype]}"


def argument(arg: object) -> str:
    """The argument of an op in a print: its own text, or field=value pairs.

    Members of enumerations are shown by their names; flags, where they are set.
    """
    if arg is None:
        return ""
    if callable(arg):
        return str(getattr(arg, "__name__", arg))
    if type(arg).__str__ is not object.__str__ and is_dataclass(arg):
        return str(arg)
    if is_dataclass(arg):
        values = [(f.name, getattr(arg, f.name), f.default) for f in fields(arg) if f.repr]
        unset = {name for name, x, default in values if x is None or x is default is False}
        shown = [(name, x) for name, x, _ in values if name not in unset]
        return ", ".join(f"{name}={argument(x)}" for name, x in shown)
    if isinstance(arg, enum.Enum):
        return str(arg.value)
    if isinstance(arg, np.dtype):
        return SHORT[arg]
    if isinstance(arg, tuple):
        return "(" + ",".join(argument(a) for a in arg) + ")"
    return str(arg)
