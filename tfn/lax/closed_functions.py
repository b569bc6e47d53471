"""Closure conversion: the function of a loop or a branch, traced once, with its captures.

The values that the function captured, arrays or values of an outer trace, become its first
parameters, and the loop passes them on.  A closure is cached by its function and the types of the
arguments, unless it captured values of a trace.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from tfn import tree
from tfn._support.cache import NODE_BYTES, Cache
from tfn._support.frozen import frozen
from tfn.dtypes import RULES, promote
from tfn.eager.operands import number_as
from tfn.errors import ArgumentError, DTypeError, ShapeError, TfnError, TreeError
from tfn.trace import bind, build, refs, traces
from tfn.trace.argument import Param
from tfn.trace.jaxpr import Jaxpr, close, function, leaves, param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, substitute, walk
from tfn.transforms.arguments import Function, argument_names, as_value, name_of, show
from tfn.transforms.shapes import ShapeDtypeStruct
from tfn.transforms.shard import layout
from tfn.transforms.tracing import record


@frozen
class Closed:
    """A traced function, with its captured values as explicit parameters.

    Attributes:
        function: the FUNCTION; its parameters are what was captured, then the inputs.
        captured: the Values it closed over.
        structure: of the result.
        weak: which results have a weak dtype.
        cells: state, whose values follow the captured ones, and come before the results.
        uses_axes: whether it was traced within named axes that it uses.
        shardings: of the results, over explicit axes of a mesh.
    """

    function: UOp
    captured: tuple[Any, ...]
    structure: tree.Structure
    weak: tuple[bool, ...]
    cells: tuple[traces.Cell, ...] = ()
    uses_axes: bool = False
    shardings: tuple[Any, ...] = ()

    @property
    def types(self) -> list[ShapeDtypeStruct]:
        """The types of the results."""
        outputs = zip(self.function.src[len(self.cells) :], self.weak, self.shardings, strict=True)
        return [
            ShapeDtypeStruct(u.shape, u.dtype, weak, sharding=sharding)
            for u, weak, sharding in outputs
        ]

    @property
    def size_bytes(self) -> int:
        """Memory that the closure keeps alive: captured arrays may have no other owner."""
        nodes = sum(1 for _ in walk(self.function.src))
        captured_bytes: int = sum(value.nbytes for value in self.captured)
        return NODE_BYTES * nodes + captured_bytes

    @property
    def inputs(self) -> tuple[Param, ...]:
        """The parameters that are not captured."""
        params: tuple[Param, ...] = self.function.arg.params
        return params[len(self.captured) + len(self.cells) :]


_CLOSED: WeakKeyDictionary[Function, Cache[Closed]] = WeakKeyDictionary()


def closed(
    what: str,
    f: Function,
    types: Sequence[ShapeDtypeStruct],
    structure: tree.Structure,
    branch: bool = False,
) -> Closed:
    """Returns the closure of a function for leaves of these types, arguments of this structure.

    `what` is the name of the loop, for messages.  Operations on captured values alone are hoisted
    out of a loop; those of a `branch` stay in it, and run only if it is chosen.
    """
    key = what, structure, tuple(types), *RULES[0]
    try:
        cache = _CLOSED.get(f)
    except TypeError:  # not hashable, or without weak references
        return _close(what, f, types, structure, branch)
    result = None if cache is None else cache.find(key)
    if result is None:
        result = _close(what, f, types, structure, branch)
        inside = any(value.owner is not None for value in result.captured)
        inside = inside or not all(cell.lasting for cell in result.cells)
        if not inside and not result.uses_axes:
            if cache is None:
                cache = _CLOSED[f] = Cache("functions in loops", lambda closed: closed.size_bytes)
            cache.keep(key, result)
    return result


def called(what: str, f: Function, *args: Any) -> Any:
    """The result of a function that a loop or a branch calls.

    Raises:
        ArgumentError: if the function does not take as many arguments.
    """
    try:
        return f(*args)
    except TypeError:
        if _takes(f, len(args)):
            raise
    raise ArgumentError(
        f"{what} calls {name_of(f)} with {len(args)} argument{'s' * (len(args) != 1)}",
        got=f"{name_of(f)}{inspect.signature(f)}",
        hint="the body of scan takes a carry and a slice, of fori_loop an index and a carry, of "
        "while_loop a carry; branches take the operands, and the function of map one slice",
    )


def _takes(f: Function, count: int) -> bool:
    try:
        inspect.signature(f).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a function of C that does not say what it takes
        return True
    return True


def _close(
    what: str,
    f: Function,
    types: Sequence[ShapeDtypeStruct],
    structure: tree.Structure,
    branch: bool,
) -> Closed:
    names = argument_names(f, tree.structure((tree.unflatten(structure, types), {})))
    recorded = record(
        what,
        f,
        lambda xs: called(what, f, *tree.unflatten(structure, xs)),
        types,
        names,
        known=False,
        branch=branch,
    )
    inputs = [*recorded.before, *recorded.inputs]
    outputs, inner = [*recorded.after, *recorded.outputs], set(inputs)
    captured = [leaf for leaf in leaves(outputs) if leaf not in inner]
    jaxpr, _ = close(outputs, [*captured, *inputs])
    values = tuple(leaf.arg.value for leaf in captured)
    structure, weak, uses_axes = recorded.structure, recorded.weak, recorded.trace.uses_axes
    found = [recorded.layout_of(u) for u in recorded.outputs]
    shardings = tuple([None if at is None else at.sharding for at in found])
    return Closed(
        jaxpr.function, values, structure, tuple(weak), recorded.cells, uses_axes, shardings
    )


def perform(
    make: Callable[[list[UOp]], list[UOp]],
    operands: Sequence[Any],
    weak: Sequence[bool],
    cells: Sequence[traces.Cell] = (),
) -> list[Any]:
    """Returns the results of a graph over operands: recorded in a trace, or run as one program."""
    params = tuple(Param(i, x.shape, x.dtype) for i, x in enumerate(operands))
    outputs = make([param(p) for p in params])
    return bind.call(Jaxpr(function(outputs, params)), operands, weak, cells)


def values(name: str, argument: Any) -> tuple[list[Any], list[str], tree.Structure]:
    """Returns the leaves of an argument as Values, the path of each, and their structure."""
    flat, structure = refs.flatten(argument)
    names = [name + text for _, text in tree.places(structure)]
    return [as_value(x, n) for x, n in zip(flat, names, strict=True)], names, structure


def with_numbers(operands: Sequence[Any], begin: int, argument: object) -> list[Any]:
    """Replaces the Python numbers among the leaves of an argument, which begin at operand `begin`.

    Python numbers among them are constants of the trace, if there is one; else they are operands,
    so that another number needs no other program.
    """
    trace = bind.innermost(operands)
    replaced = list(operands)
    if trace is not None:
        for i, leaf in enumerate(tree.leaves(argument), begin):
            if isinstance(leaf, (bool, int, float, complex)):
                replaced[i] = number_as(leaf, replaced[i].dtype, trace)
    return replaced


def with_common_captures(
    functions: Sequence[Closed],
) -> tuple[list[UOp], list[Any], tuple[traces.Cell, ...]]:
    """Gives all functions the same list of captured values, and the same state.

    Returns:
        The functions, the captured values, and the state that any function uses.
    """
    order: dict[Any, int] = {}
    captured: list[Any] = []
    for f in functions:
        for value in f.captured:
            if order.setdefault(identity(value), len(order)) == len(captured):
                captured.append(value)
    cells = tuple(dict.fromkeys(cell for f in functions for cell in f.cells))
    state = [ShapeDtypeStruct.of(cell.read()) for cell in cells]
    widened = []
    for f in functions:
        types = [*captured, *state, *f.inputs]
        params = tuple(Param(i, x.shape, x.dtype) for i, x in enumerate(types))
        nodes = [param(p) for p in params]
        middle, end = len(captured), len(captured) + len(cells)
        own = [nodes[order[identity(value)]] for value in f.captured]
        outputs = with_state(f, cells, own, nodes[middle:end], nodes[end:])
        widened.append(function(outputs, params))
    return widened, captured, cells


def with_state(
    f: Closed,
    cells: Sequence[traces.Cell],
    captured: Sequence[UOp],
    state: Sequence[UOp],
    inputs: Sequence[UOp],
) -> list[UOp]:
    """The next state, and the results, of a function that leaves some of the state alone."""
    now = dict(zip(cells, state, strict=True))
    outputs = inlined(f.function, [*captured, *(now[cell] for cell in f.cells), *inputs])
    now |= zip(f.cells, outputs)
    return [*now.values(), *outputs[len(f.cells) :]]


def identity(value: Any) -> Any:
    """Returns a key that is equal for two handles of one Value."""
    return id(value) if value.owner is None else value.uop


def inlined(f: UOp, operands: Sequence[UOp]) -> list[UOp]:
    """The outputs of a FUNCTION for operands."""
    replace = dict(zip(map(param, f.arg.params), operands, strict=True))
    return substitute(f.src, replace)


def settle(
    what: str,
    init: Sequence[Any],
    names: Sequence[str],
    structure: tree.Structure,
    close_body: Callable[[list[ShapeDtypeStruct]], tuple[Closed, tree.Structure]],
) -> tuple[list[Any], Closed, UOp]:
    """Finds types of the carry that the body returns as it takes them (a fixed point).

    Returns:
        The first carries in these types, the body, and its FUNCTION.

    A weak carry (that began as a Python number) takes the dtype that the body gives it.  Where that
    is another one, the carry is weak no more, and the body is traced again.
    `close_body` traces the body for carries of given types, and says which part of the structure
    of its result is the carry; its leaves come first.

    Raises:
        TreeError: if the body gives a carry of another structure.
        DTypeError: if it gives one of another shape or dtype, naming the path and both types.
    """
    types = [ShapeDtypeStruct.of(v) for v in init]
    while True:
        body, result_structure = close_body(types)
        if result_structure != structure:
            raise TreeError(
                f"the body of {what} must return a carry of the structure that it takes",
                got=f"it takes {tree.show(structure)} and returns {tree.show(result_structure)}",
                hint="return the same containers with the same keys, or change the first carry",
            )
        wider = [_joined(old, new) for old, new in zip(types, body.types)]
        if [t.dtype for t in wider] == [t.dtype for t in types]:
            break  # a carry that is weak at first only is not traced again: it has one dtype
        types = wider
    count = len(body.cells)
    state, outputs = body.function.src[:count], list(body.function.src[count:])
    wrong = []
    for i, (name, old, new) in enumerate(zip(names, types, body.types)):
        fits = old.shape == new.shape and (
            old.dtype == new.dtype or (new.weak_type and _promoted(old, new)[0] == old.dtype)
        )
        if fits:
            outputs[i] = build.cast(outputs[i], old.dtype)
        else:
            wrong.append((name, old, new))
    if wrong:
        raise _mismatch(what, wrong)
    layout.check_same(what, names, types, body.types)
    first = [
        v if v.dtype == t.dtype else bind.bind(Op.CAST, v, arg=t.dtype) for v, t in zip(init, types)
    ]
    return first, body, function([*state, *outputs], body.function.arg.params)


def _promoted(a: ShapeDtypeStruct, b: ShapeDtypeStruct) -> tuple[Any, bool]:
    return promote(((a.dtype, a.weak_type), (b.dtype, b.weak_type)))


def _joined(old: ShapeDtypeStruct, new: ShapeDtypeStruct) -> ShapeDtypeStruct:
    """The type of a carry that was `old` and became `new`: only a weak one changes.

    One that gets another dtype is weak no more.
    """
    if not old.weak_type or old.shape != new.shape:
        return old
    dtype, weak = _promoted(old, new)
    return ShapeDtypeStruct(old.shape, dtype, weak and dtype == old.dtype, sharding=old.sharding)


def _mismatch(what: str, wrong: Sequence[tuple[str, Any, Any]]) -> TfnError:
    name, old, new = wrong[0]
    if old.shape == new.shape:
        cure = f"begin with {name} of {new.dtype.name}, or return it .astype({old.dtype.name!r})"
    else:
        cure = f"begin with {name} of shape {new.shape}, or return it with shape {old.shape}"
    error = DTypeError if old.shape == new.shape else ShapeError
    lines = [f"{name} goes in as {show(a)} and comes out as {show(b)}" for name, a, b in wrong]
    return error(
        f"the body of {what} must return a carry of the types that it takes",
        got="; ".join(lines),
        hint=cure,
    )


class Returned(NamedTuple):
    """The results of a branch that has run: their structure and types."""

    structure: tree.Structure
    types: list[ShapeDtypeStruct]


def same_results(
    what: str, functions: Sequence[Function], branches: Sequence[Closed | Returned]
) -> list[ShapeDtypeStruct]:
    """Returns the types of the results of all branches, which are the same but for weak dtypes.

    Raises:
        TreeError, ShapeError, DTypeError: naming the branches and the paths in which they differ.
    """
    first = branches[0]
    types = first.types
    for f, branch in zip(functions, branches):
        if branch.structure != first.structure:
            raise TreeError(
                f"the branches of {what} must return one structure",
                got=f"{name_of(functions[0])} returns {tree.show(first.structure)}, "
                f"{name_of(f)} returns {tree.show(branch.structure)}",
                hint="return the same containers with the same keys from every branch",
            )
        types = [_either(old, new) for old, new in zip(types, branch.types)]
    for f, branch in zip(functions, branches):
        for i, (expected, got) in enumerate(zip(types, branch.types)):
            if got.shape != expected.shape or (got.dtype != expected.dtype and not got.weak_type):
                path = tree.places(first.structure)[i][1]
                raise (DTypeError if got.shape == expected.shape else ShapeError)(
                    f"the branches of {what} must return results of one type",
                    got=f"result{path} is {show(first.types[i])} in {name_of(functions[0])} and "
                    f"{show(got)} in {name_of(f)}",
                    hint="use .astype"
                    if got.shape == expected.shape
                    else "reshape or broadcast it",
                )
        layout.check_branches(what, [name_of(functions[0]), name_of(f)], first.types, branch.types)
    return types


def _either(a: ShapeDtypeStruct, b: ShapeDtypeStruct) -> ShapeDtypeStruct:
    """A common type, if one of them is weak."""
    if a.shape != b.shape or not (a.weak_type or b.weak_type):
        return a
    return ShapeDtypeStruct(a.shape, *_promoted(a, b))
