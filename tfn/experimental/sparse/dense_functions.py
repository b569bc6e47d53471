"""`sparsify`: functions of dense arrays that take sparse ones, by a rule for each operation.

The function is traced as if all arrays were dense.  Its graph is then read again: operations on
dense values stay as they are, and those with a sparse operand have a row in `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfn import numpy as tnp
from tfn import tree
from tfn.errors import NotAvailableError
from tfn.experimental.sparse import arithmetic, contraction, movement
from tfn.experimental.sparse.bcoo import BCOO
from tfn.experimental.sparse.conversions import bcoo_sum_duplicates
from tfn.experimental.sparse.coordinates import inside, padding, parts
from tfn.experimental.sparse.derivatives import is_sparse
from tfn.extend import (
    SEVERAL,
    Op,
    ShapeDtypeStruct,
    UOp,
    as_value,
    bind,
    name_of,
    param,
    runtime,
    traces,
    tracing,
    walk,
    wraps,
)
from tfn.trace.uop import substitute
from tfn.transforms.grad import variable

Function = Callable[..., Any]


def sparsify(f: Function, use_tracer: bool = False) -> Function:
    """A function of dense arrays as one that takes sparse arrays too, and returns them.

    Sums, products, slices, reductions by sums, and functions that are zero at zero are done on
    the stored elements; a call of `tfn.jit` in the function is looked into.

    Args:
        f: a function of arrays.
        use_tracer: accepted; there is one way.

    Returns:
        The function: results that are sparse are `BCOO`.

    Raises:
        NotAvailableError: for an operation on a sparse array without a rule, by its name.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> @sparsify
        ... def f(m, x):
        ...     return tnp.sin(2 * m.T) @ x
        >>> mat = sparse.BCOO.fromdense(tnp.asarray([[0.0, 1.0], [0.0, 0.0]]))
        >>> f(mat, tnp.ones(2)).tolist()
        [0.0, 0.9092974066734314]
    """

    @wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs), is_leaf=is_sparse)
        leaves = [x.to_bcoo() if is_sparse(x) and not isinstance(x, BCOO) else x for x in leaves]
        buffers, inner = tree.flatten(leaves)
        values = [as_value(x, f"argument {i}") for i, x in enumerate(buffers)]

        def call(xs: Sequence[Any]) -> Any:
            return _on_values(f, structure, tree.unflatten(inner, list(xs)))

        recorded = tracing.record("sparsify", f, call, values, known=False)
        if recorded.cells:
            raise NotAvailableError(
                f"sparsify of {name_of(f)} cannot follow its side effects",
                got="a reference, a callback or a print",
                hint="leave them out",
            )
        filled = {u: variable(x, x) for u, x in zip(recorded.inputs, values, strict=True)}
        (out,) = recorded.evaluate(substitute(recorded.outputs, filled), weak=recorded.weak)
        return tree.unflatten(recorded.structure, out)

    return run


def _on_values(f: Function, structure: Any, leaves: Sequence[Any]) -> Any:
    """The results of a function for sparse and dense Values of the running trace."""
    trace = traces.running()[-1]
    types = [ShapeDtypeStruct(x.shape, x.dtype, getattr(x, "weak_type", False)) for x in leaves]

    def call(xs: Sequence[Any]) -> Any:
        args, kwargs = tree.unflatten(structure, list(xs))
        return f(*args, **kwargs)

    recorded = tracing.record("sparsify", f, call, types, known=False)
    values: dict[UOp, Any] = {
        u: x if is_sparse(x) else bind.lift(x, trace)
        for u, x in zip(recorded.inputs, leaves, strict=True)
    }
    found = _interpret(recorded.outputs, values, trace)
    wrapped = [
        y if is_sparse(y) else runtime.installed().wrap(y, trace, False, weak)
        for y, weak in zip(found, recorded.weak, strict=True)
    ]
    return tree.unflatten(recorded.structure, wrapped)


def _interpret(outputs: Sequence[UOp], values: dict[UOp, Any], trace: traces.Trace) -> list[Any]:
    """Graphs over values, each a node of the trace or a sparse array."""
    for node in walk(outputs):
        if node in values or node.op is Op.FUNCTION:
            continue
        if node.op is Op.LEAF:
            values[node] = bind.lift(node.arg.value, trace)
            continue
        if node.op is Op.GET and isinstance(values[node.src[0]], list):
            values[node] = values[node.src[0]][node.arg]
            continue
        operands = [s if s.op is Op.FUNCTION else values[s] for s in node.src]
        if not any(map(is_sparse, operands)):
            values[node] = UOp(node.op, tuple(operands), node.arg)
            continue
        if node.op in (Op.CALL, Op.CUSTOM):
            inner = dict(zip(map(param, node.src[0].arg.params), operands[1:], strict=True))
            values[node] = _interpret(node.src[0].src, inner, trace)
            continue
        rule = RULES.get(node.op)
        if rule is None or node.op in SEVERAL:
            raise NotAvailableError(
                f"sparsify has no rule for {node.op.value}",
                got=", ".join(repr(x) for x in operands if is_sparse(x)),
                hint="call todense() before it, or write it by operations that keep zeros",
            )
        wrapped = [
            x if is_sparse(x) else runtime.installed().wrap(x, trace, False, False)
            for x in operands
        ]
        out = rule(node, *wrapped)
        values[node] = out if is_sparse(out) else bind.lift(out, trace)
    return [values[u] for u in outputs]


# Rules: ``rule(node, *operands)`` of Values and sparse arrays.


def _elementwise(node: UOp, mat: Any) -> Any:
    """A function that is zero at zero, of elements of which each is there once."""
    mat = mat if mat.unique_indices else bcoo_sum_duplicates(mat)
    return arithmetic.unary(lambda x: bind.bind(node.op, x, arg=node.arg), mat)


def _linear(node: UOp, mat: Any) -> Any:
    """A linear function of each element."""
    return arithmetic.unary(lambda x: bind.bind(node.op, x, arg=node.arg), mat)


def _cast(node: UOp, mat: Any) -> Any:
    keeps_sums = mat.dtype.kind == node.dtype.kind
    return _linear(node, mat) if keeps_sums else _elementwise(node, mat)


def _extreme(node: UOp, a: Any, b: Any) -> Any:
    """The larger or smaller of a sparse array and zero, of which the result is sparse."""
    mat, other = (a, b) if is_sparse(a) else (b, a)
    if is_sparse(other) or not _is_zero(node.src[1] if is_sparse(a) else node.src[0]):
        raise NotAvailableError(
            f"sparsify has {node.op.value} of a sparse array and zero alone",
            got=f"{a!r} and {b!r}"[:160],
            hint="call todense() before it",
        )
    mat = mat if mat.unique_indices else bcoo_sum_duplicates(mat)
    return arithmetic.unary(lambda x: bind.bind(node.op, x, tnp.zeros_like(x), arg=node.arg), mat)


def _is_zero(u: UOp) -> bool:
    while u.op in (Op.EXPAND, Op.RESHAPE, Op.CAST):
        u = u.src[0]
    return u.op is Op.CONST and not u.arg.value


def _thin(u: UOp, value: Any) -> Any:
    """A dense operand as it was before it was repeated, where that is a constant."""
    if u.op is Op.CONST and u.shape:
        return tnp.asarray(u.arg.value)
    return value


def _product(node: UOp, a: Any, b: Any) -> Any:
    if node.src[0] is node.src[1]:
        mat = a if a.unique_indices else bcoo_sum_duplicates(a)
        return arithmetic.unary(lambda x: x * x, mat)
    if is_sparse(a) and is_sparse(b):
        return a * b
    mat, other, u = (a, b, node.src[1]) if is_sparse(a) else (b, a, node.src[0])
    return mat * _thin(u, other)


def _quotient(node: UOp, a: Any, b: Any) -> Any:
    if not is_sparse(a) or is_sparse(b):
        raise NotAvailableError(
            "sparsify divides sparse arrays by dense ones alone", got=f"{a!r} / {b!r}"[:160]
        )
    return a / _thin(node.src[1], b)


def _sum(node: UOp, a: Any, b: Any) -> Any:
    return a + b


def _difference(node: UOp, a: Any, b: Any) -> Any:
    return a - b


def _reduce(node: UOp, mat: Any) -> Any:
    if node.arg.op is not Op.ADD:
        raise NotAvailableError(
            "sparsify reduces by sums alone",
            got=f"{node.arg.op.value} of {mat!r}",
            hint="call todense() before it",
        )
    out = arithmetic.bcoo_reduce_sum(mat, axes=node.arg.axes)
    return out if out.ndim else out.data.sum(0)


def _pad(node: UOp, mat: Any, value: Any) -> Any:
    """Zeros around and between: indices are moved."""
    if not is_sparse(mat) or not _is_zero(node.src[1]):
        raise NotAvailableError("sparsify pads with zeros alone", got=repr(mat)[:80])
    mat = mat.update_layout(n_batch=0, n_dense=0)
    low, between = (
        tnp.asarray(list(x), mat.indices.dtype) for x in (node.arg.low, node.arg.interior)
    )
    there = inside(mat.indices, parts(mat)[1])[..., None]
    rows = tnp.where(there, mat.indices * (between + 1) + low, padding(node.shape, mat.indices))
    return mat.like(mat.data, rows, node.shape, mat.indices_sorted, mat.unique_indices)


def _slice(node: UOp, mat: Any) -> Any:
    start, stop, step = node.arg.start, node.arg.stop, node.arg.step
    return movement.bcoo_slice(mat, start_indices=start, limit_indices=stop, strides=step)


def _transpose(node: UOp, mat: Any) -> Any:
    first, last = mat.n_batch, mat.ndim - mat.n_dense
    groups = node.arg[:first], node.arg[first:last], node.arg[last:]
    bounds = (0, first), (first, last), (last, mat.ndim)
    if any(sorted(g) != list(range(*b)) for g, b in zip(groups, bounds, strict=True)):
        mat = mat.update_layout(n_batch=0, n_dense=0)
    return mat.transpose(node.arg)


def _dot(node: UOp, a: Any, b: Any) -> Any:
    arg = node.arg
    dims = ((arg.contract_a, arg.contract_b), (arg.batch_a, arg.batch_b))
    out = contraction.bcoo_dot_general(a, b, dimension_numbers=dims)
    return out.astype(arg.dtype)


def _concatenate(node: UOp, *operands: Any) -> Any:
    if not all(map(is_sparse, operands)):
        return tnp.concatenate([x.todense() if is_sparse(x) else x for x in operands], node.arg)
    return movement.bcoo_concatenate(operands, dimension=node.arg)


ZERO_AT_ZERO = (
    Op.ABS,
    Op.SIGN,
    Op.FLOOR,
    Op.CEIL,
    Op.ROUND,
    Op.EXPM1,
    Op.LOG1P,
    Op.SIN,
    Op.TAN,
    Op.ASIN,
    Op.ATAN,
    Op.SINH,
    Op.TANH,
    Op.ASINH,
    Op.ATANH,
    Op.SQRT,
    Op.CBRT,
    Op.ERF,
    Op.ERFINV,
)

# fmt: off
RULES: dict[Op, Callable[..., Any]] = {
    **dict.fromkeys(ZERO_AT_ZERO, _elementwise),
    **dict.fromkeys((Op.NEG, Op.REAL, Op.IMAG, Op.DETACH, Op.GBARRIER), _linear),
    Op.CAST: _cast,
    **dict.fromkeys((Op.MAX, Op.MIN), _extreme),
    Op.ADD: _sum,
    Op.SUB: _difference,
    Op.MUL: _product,
    Op.DIV: _quotient,
    Op.RESHAPE: lambda node, mat: movement.bcoo_reshape(mat, new_sizes=node.arg),
    Op.PERMUTE: _transpose,
    Op.EXPAND: lambda node, mat: movement.bcoo_broadcast_in_dim(
        mat, shape=node.arg, broadcast_dimensions=range(mat.ndim)),
    Op.SHRINK: _slice,
    Op.FLIP: lambda node, mat: movement.bcoo_rev(mat, node.arg),
    Op.PAD: _pad,
    Op.CONCAT: _concatenate,
    Op.REDUCE: _reduce,
    Op.DOT: _dot,
}
# fmt: on
"""The rules of operations for sparse operands."""
