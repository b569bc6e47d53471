"""Closed functions as JAX's jaxprs: equations over variables, made when they are asked for.

    { lambda ; a:f32[]. let b = sin a in (b,) }    ->    [sin: (a) -> (b)]

A `ClosedJaxpr` is evaluated as a graph; its equations are a view of that graph for interpreters
that the user writes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tfn import tree
from tfn.compat.avals import ShapedArray
from tfn.compat.linear_util import WrappedFun, wrap_init
from tfn.compat.primitives import Primitive, PrimitiveRules
from tfn.extend import (
    SEVERAL,
    Argnums,
    Op,
    ShapeDtypeStruct,
    UOp,
    argument,
    as_value,
    bind,
    build,
    close,
    const,
    frozen,
    function,
    inline,
    param,
    print_jaxpr,
    regions,
    run,
    runtime,
    traces,
    tracing,
    walk,
)
from tfn.extend import Jaxpr as Closed
from tfn.trace import refs
from tfn.trace.uop import remembered
from tfn.transforms.static_args import Selection


class Var:
    """A variable of a jaxpr: a type, and an identity."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var:{self.aval}"


class Literal:
    """A constant scalar in the place of a variable."""

    __slots__ = ("aval", "val")

    def __init__(self, val: Any, aval: ShapedArray) -> None:
        self.val, self.aval = val, aval

    def __repr__(self) -> str:
        return f"{self.val}:{self.aval}"


Atom = Var | Literal


@frozen
class JaxprEqn:
    """An equation: a primitive, what it reads, and the variables that it gives."""

    invars: list[Any]
    outvars: list[Any]
    primitive: Any
    params: dict[str, Any]
    effects: frozenset[Any] = frozenset()


@functools.cache
def primitive_of(op: Op) -> Primitive:
    """The primitive of an operation of tfn: always the same object."""
    primitive = Primitive(op.value)
    primitive.composed, primitive.multiple_results = True, op in SEVERAL
    primitive.def_impl(functools.partial(bind_op, op))
    if op is Op.CUSTOM:
        primitive.functions_of = callable_functions
    return primitive


def callable_functions(params: dict[str, Any]) -> tuple[WrappedFun, ...]:
    """The functions in the parameters of an equation, to be called by interpreters."""
    return tuple(wrap_init(jaxpr_as_fun(closed)) for closed in params["functions"])


def bind_op(
    op: Op,
    *operands: Any,
    arg: Any = None,
    functions: Sequence[Any] = (),
    subfuns: Sequence[WrappedFun] = (),
) -> Any:
    """The results of an operation with the argument and the functions of an equation."""
    values = [constant(x) for x in operands]
    if op not in SEVERAL:
        return bind.bind(op, *values, arg=arg)
    bodies = [f.jaxpr.function for f in functions]
    at = 1 if op is Op.COND else 0
    if op is Op.COND:  # what a branch has captured becomes an operand of all
        consts = [[*map(run.asarray, f.consts)] for f in functions]
        bodies = [_widened(f, i, consts) for i, f in enumerate(bodies)]
        values += [x for own in consts for x in own]
    leaves = [UOp(Op.LEAF, (), argument.Leaf(x.shape, x.dtype)) for x in values]
    node = UOp(op, (*leaves[:at], *bodies, *leaves[at:]), arg)
    jaxpr, _ = close(build.several(node), leaves)
    return bind.call(jaxpr, values, [False] * len(jaxpr.outputs))


def constant(x: Any) -> Any:
    """An operand as a Value: a number is one of the innermost trace, as in the function's text."""
    number = isinstance(x, (bool, int, float, complex, np.generic))
    if not number or not traces.running():
        return run.asarray(x)
    value = run.asarray(x)
    scalar = const(np.asarray(x)[()].item(), value.dtype)
    return runtime.installed().wrap(scalar, traces.running()[-1], True, value.weak_type)


def _widened(f: UOp, number: int, consts: Sequence[Sequence[Any]]) -> UOp:
    """A branch that takes the captured values of all branches after its operands."""
    count = len(f.arg.params) - len(consts[number])
    own = count + sum(map(len, consts[:number]))
    types = [*f.arg.params[:count], *(x for some in consts for x in some)]
    params = tuple(argument.Param(i, x.shape, x.dtype) for i, x in enumerate(types))
    taken = [*params[:count], *params[own : own + len(consts[number])]]
    return function(inline(Closed(f), [param(p) for p in taken]), params)


@frozen
class Jaxpr:
    """A function of variables.

    Attributes:
        function: the FUNCTION node: its parameters are the inputs, state, and the constants.
        inputs: the number of inputs.
        cells: the state, whose values are the first results too.
        weak: which results have a weak dtype.
    """

    function: UOp
    inputs: int
    cells: tuple[traces.Cell, ...]
    weak: tuple[bool, ...]

    @property
    def eqns(self) -> list[JaxprEqn]:
        """The equations, in an order in which they can be computed."""
        return view(self.function)[0]

    @property
    def invars(self) -> list[Any]:
        """The variables of the inputs."""
        return view(self.function)[1][: self.inputs]

    @property
    def constvars(self) -> list[Any]:
        """The variables of the constants."""
        return view(self.function)[1][self.inputs + len(self.cells) :]

    @property
    def outvars(self) -> list[Any]:
        """The results: variables and literals."""
        return view(self.function)[2][len(self.cells) :]

    @property
    def effects(self) -> frozenset[str]:
        """Whether there are side effects, as a set."""
        return frozenset(["host"]) if self.cells else frozenset()

    @property
    def jaxpr(self) -> Jaxpr:
        """This function."""
        return self

    def __str__(self) -> str:
        return print_jaxpr(Closed(self.function))

    __repr__ = __str__


class ClosedJaxpr:
    """A `Jaxpr` with the values of its constants."""

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()) -> None:
        self.jaxpr, self.consts = jaxpr, list(consts)

    literals = property(lambda self: self.consts)
    eqns = property(lambda self: self.jaxpr.eqns)
    effects = property(lambda self: self.jaxpr.effects)
    in_avals = property(lambda self: [v.aval for v in self.jaxpr.invars])
    out_avals = property(lambda self: [v.aval for v in self.jaxpr.outvars])

    def __str__(self) -> str:
        return str(self.jaxpr)

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClosedJaxpr) and self.jaxpr == other.jaxpr

    def __hash__(self) -> int:
        return hash(self.jaxpr)


@remembered
def view(function: UOp) -> tuple[list[JaxprEqn], list[Any], list[Any]]:
    """The equations of a FUNCTION, the variables of its parameters, those of its results."""
    atoms: dict[UOp, Any] = {}
    inside: dict[UOp, list[Any]] = {}  # the variables of nodes of several results
    equations: list[JaxprEqn] = []
    params = [param(p) for p in function.arg.params]
    for p in params:
        atoms[p] = Var(ShapedArray(p.shape, p.dtype))
    for node in walk(function.src):
        if node in atoms or node.op is Op.FUNCTION:
            continue
        if node.op is Op.GET:
            atoms[node] = inside[node.src[0]][node.arg]
            continue
        if node.op is Op.CONST and node.shape == ():
            value = node.dtype.type(node.arg.value)
            atoms[node] = Literal(value, ShapedArray((), node.dtype))
            continue
        if node.op in SEVERAL:
            outvars: list[Any] = [Var(ShapedArray(*t)) for t in types_of(node)]
            inside[node] = outvars
        else:
            outvars = [Var(ShapedArray(node.shape, node.dtype))]
            atoms[node] = outvars[0]
        operands = [atoms[s] for s in node.src if s.op is not Op.FUNCTION]
        equations.append(equation(node, operands, outvars))
    return equations, [atoms[p] for p in params], [atoms[u] for u in function.src]


def types_of(node: UOp) -> Iterator[tuple[Any, Any]]:
    """Shape and dtype of each result of a node of several."""
    for i in range(len(regions.results(node))):
        got = UOp(Op.GET, (node,), i)
        yield got.shape, got.dtype


def equation(node: UOp, operands: list[Any], outvars: list[Any]) -> JaxprEqn:
    """The equation of a node: of a primitive of the user under its own name."""
    if node.op is Op.CUSTOM and isinstance(node.arg.rules, PrimitiveRules):
        rules = node.arg.rules
        inputs, outputs = operands[rules.captured :], outvars[len(rules.cells) :]
        return JaxprEqn(inputs, outputs, rules.primitive, dict(rules.params.items))
    functions = [
        ClosedJaxpr(Jaxpr(s, len(s.arg.params), (), (False,) * len(s.src)))
        for s in node.src
        if s.op is Op.FUNCTION
    ]
    params: dict[str, Any] = {} if node.arg is None else {"arg": node.arg}
    if functions:
        params |= {"functions": tuple(functions)}
    return JaxprEqn(operands, outvars, primitive_of(node.op), params)


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: Argnums = (),
    axis_env: object = None,
    return_shape: bool = False,
    abstracted_axes: object = None,
) -> Callable[..., Any]:
    """A function that returns the jaxpr of `fun` for its arguments, which may be types.

    Example:
        >>> import tfn.numpy as tnp
        >>> closed = make_jaxpr(lambda x: tnp.sin(x) * 2)(1.0)
        >>> [str(e.primitive) for e in closed.eqns], float(eval_jaxpr(closed.jaxpr, [], 0.0)[0])
        (['sin', 'mul'], 0.0)
    """
    static = Selection.of(fun, "static", static_argnums, ())

    @functools.wraps(fun)
    def trace(*args: Any, **kwargs: Any) -> Any:
        split = static.split(fun, args, kwargs)
        leaves, structure = refs.flatten(split.dynamic)
        types = [
            x if isinstance(x, ShapeDtypeStruct) else typed(x, f"argument {i}")
            for i, x in enumerate(leaves)
        ]

        def inner(xs: list[Any]) -> Any:
            new_args, new_kwargs = split.join(tree.unflatten(structure, xs))
            return fun(*new_args, **new_kwargs)

        closed, out = closed_jaxpr(fun, inner, types)
        return (closed, out) if return_shape else closed

    return trace


def typed(x: Any, name: str) -> ShapeDtypeStruct:
    """The type of an argument: an array, a number, or anything with a shape and a dtype."""
    if isinstance(x, ShapedArray):
        return ShapeDtypeStruct(x.shape, x.dtype, x.weak_type)
    return ShapeDtypeStruct.of(as_value(x, name))


def closed_jaxpr(
    fun: Callable[..., Any], call: Callable[[list[Any]], Any], types: Sequence[ShapeDtypeStruct]
) -> tuple[ClosedJaxpr, Any]:
    """A function of leaves of these types, closed, and the types of its result.

    Each value that it captures is a constant of its own, as JAX has it: libraries close two
    functions that compute the same of different values, and compare their constants' number.
    """
    recorded = tracing.record("make_jaxpr", fun, call, types, known=False, apart=True)
    inputs = [*recorded.inputs, *recorded.before]
    closed, captured = close([*recorded.after, *recorded.outputs], inputs)
    jaxpr = Jaxpr(closed.function, len(recorded.inputs), recorded.cells, tuple(recorded.weak))
    out = tree.unflatten(
        recorded.structure,
        [
            ShapeDtypeStruct(u.shape, u.dtype, weak)
            for u, weak in zip(recorded.outputs, recorded.weak, strict=True)
        ],
    )
    return ClosedJaxpr(jaxpr, [leaf.arg.value for leaf in captured]), out


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any, **options: object) -> list[Any]:
    """The results of a jaxpr."""
    state = [cell.read() for cell in jaxpr.cells]
    operands = [*map(run.asarray, args), *state, *map(run.asarray, consts)]
    return bind.call(Closed(jaxpr.function), operands, jaxpr.weak, jaxpr.cells)


def jaxpr_as_fun(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The function of a jaxpr."""
    return functools.partial(eval_jaxpr, closed.jaxpr, closed.consts)


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The jaxprs in the parameters of the equations."""
    for eqn in jaxpr.eqns:
        yield from jaxprs_in_params(eqn.params)


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The jaxprs in the parameters of an equation."""
    for value in params.values():
        for part in value if isinstance(value, (tuple, list)) else [value]:
            if isinstance(part, (Jaxpr, ClosedJaxpr)):
                yield part.jaxpr
