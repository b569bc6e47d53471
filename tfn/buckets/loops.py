"""Masking rules of loops and branches: the sizes go in as constants.

A scan over a padded axis takes as many steps as the bucket has, of which those in the tail leave
the carries as they are::

    scan (c, x) -> (f(c, x), y)    ->    scan (c, x, i) -> (select (i < b) f(c, x) c, y)
"""

from __future__ import annotations

from typing import Any

from tfn.buckets.scope import Padded, Row, Scope, without
from tfn.exporting.symbolic_dims import Polynomial
from tfn.extend import Jaxpr, Op, UOp, argument, build, function, inline, param, regions
from tfn.trace.axes import running_op
from tfn.trace.inline import has


def rule(scope: Scope, row: Row, src: list[Any]) -> list[UOp]:
    """The same loop, branch or call, of functions that take the sizes they use."""
    if isinstance(getattr(row.arg, "length", 0), Polynomial):
        return _padded_steps(scope, row, src)
    return build.several(UOp(*_with_sizes(scope, row, src).fields))


def _with_sizes(scope: Scope, row: Row, src: list[Any]) -> regions.Form[UOp]:
    nodes: list[Any] = [s.node if isinstance(s, Padded) else s for s in src]
    parts: Any = regions.split(row.node.op, row.node.arg, nodes)
    made = [scope.whole.function(n) for n in parts.functions]
    shared = len(parts.consts) == 1
    uses = [any(used for _, used in made)] * len(made) if shared else [used for _, used in made]
    sizes = tuple(scope.sizes.values())
    functions = [
        f if takes else without(f, len(sizes)) for (f, _), takes in zip(made, uses, strict=True)
    ]
    consts = tuple(
        (*sizes, *own) if takes else own for own, takes in zip(parts.consts, uses, strict=False)
    )
    form: regions.Form[UOp] = parts._replace(functions=tuple(functions), consts=consts)
    return form


def _padded_steps(scope: Scope, row: Row, src: list[Any]) -> list[UOp]:
    """A loop over slices, of which those in the tail change nothing."""
    op = running_op(row.node)
    if op is not None:  # running totals: the identity in place of the tail
        body, *carries, x = src
        total = scope.filled(x, [0], build.identity(op, x.node.dtype))
        nodes = [row.node.src[0], *(c.node for c in carries), total]
        return build.several(UOp(row.node.op, tuple(nodes), row.node.arg))
    if has(row.node.src[0].src, Op.HOST):
        raise scope.refuse(row, src, "calls a function of the host in each step")
    parts = _with_sizes(scope, row, src)
    (body,), length = parts.functions, row.node.arg.length
    count = scope.number(row.arg.length)
    steps = build.iota((length,), 0, count.dtype)
    old = body.arg.params
    params = (
        argument.Param(0, (), count.dtype),
        *(argument.Param(p.index + 1, p.shape, p.dtype) for p in old),
        argument.Param(len(old) + 1, (), count.dtype),
    )
    first, last = param(params[0]), param(params[-1])
    results = inline(Jaxpr(body), list(map(param, params[1:-1])))
    at = len(parts.consts[0]) + 1
    for i in range(len(parts.carries)):
        live = build.broadcast_in_dim(last < first, results[i].shape, ())
        results[i] = build.where(live, results[i], param(params[at + i]))
    new = parts._replace(
        functions=(function(results, params),),
        consts=((count, *parts.consts[0]),),
        arrays=(*parts.arrays, steps),
        arg=argument.Scan(length, row.node.arg.reverse, 0, 0),
    )
    return build.several(UOp(*new.fields))
