"""Rules of whole kinds of primitives: ``defjvp``, ``deflinear``, ``defvectorized`` and others.

Each puts a rule into a table of `tfn.compat.primitives`, as ``jax.interpreters.ad`` and
``jax.interpreters.batching`` do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from tfn import numpy as tnp
from tfn.compat.primitives import (
    Primitive,
    lowerings,
    primitive_batchers,
    primitive_jvps,
    primitive_transposes,
)
from tfn.compat.zeros import Zero, add_tangents, is_undefined_primal

Rule = Callable[..., Any]

# Derivatives.


def defjvp(primitive: Primitive, *jvprules: Rule | None) -> None:
    """Define the derivative by each operand: ``rule(tangent, *operands, **params)``; None for zero.

    Example:
        >>> import tfn
        >>> cube_p = Primitive("cube")
        >>> _ = cube_p.def_impl(lambda x: x**3)
        >>> defjvp(cube_p, lambda dx, x: 3 * x**2 * dx)
        >>> float(tfn.grad(cube_p.bind)(2.0))
        12.0
    """
    rules = [rule and _without_result(rule) for rule in jvprules]
    defjvp2(primitive, *rules)


def _without_result(rule: Rule) -> Rule:
    return lambda dx, y, *xs, **params: rule(dx, *xs, **params)


def defjvp2(primitive: Primitive, *jvprules: Rule | None) -> None:
    """Define the derivative by each operand: ``rule(tangent, result, *operands, **params)``.

    Example:
        >>> import tfn
        >>> exp_p = Primitive("my_exp")
        >>> _ = exp_p.def_impl(tfn.numpy.exp)
        >>> defjvp2(exp_p, lambda dx, y, x: y * dx)
        >>> float(tfn.grad(exp_p.bind)(0.0))
        1.0
    """

    def jvp(primals: Any, tangents: Any, /, **params: Any) -> Any:
        y = primitive.bind(*primals, **params)
        parts = [
            rule(dx, y, *primals, **params)
            for rule, dx in zip(jvprules, tangents, strict=True)
            if rule is not None and type(dx) is not Zero
        ]
        return y, reduce(add_tangents, parts, Zero.from_primal_value(y))

    primitive_jvps[primitive] = jvp


def deflinear(primitive: Primitive, transpose_rule: Rule) -> None:
    """Define a primitive as linear in all operands, with ``rule(cotangent, **params)``.

    Example:
        >>> import tfn
        >>> triple_p = Primitive("triple")
        >>> _ = triple_p.def_impl(lambda x: 3 * x)
        >>> deflinear(triple_p, lambda ct: [triple_p.bind(ct)])
        >>> float(tfn.grad(triple_p.bind)(1.0)), float(tfn.jvp(triple_p.bind, (1.0,), (2.0,))[1])
        (3.0, 6.0)
    """
    deflinear2(primitive, lambda ct, *operands, **params: transpose_rule(ct, **params))


def deflinear2(primitive: Primitive, transpose_rule: Rule) -> None:
    """Define a primitive as linear in all operands, with ``rule(cotangent, *operands, **params)``.

    Example:
        >>> import tfn
        >>> half_p = Primitive("half")
        >>> _ = half_p.def_impl(lambda x: x / 2)
        >>> deflinear2(half_p, lambda ct, x: [ct / 2])
        >>> float(tfn.grad(half_p.bind)(1.0))
        0.5
    """

    def jvp(primals: Any, tangents: Any, /, **params: Any) -> Any:
        y = primitive.bind(*primals, **params)
        if all(type(dx) is Zero for dx in tangents):
            return y, Zero.from_primal_value(y)
        filled = [dx.instantiate() if type(dx) is Zero else dx for dx in tangents]
        return y, primitive.bind(*filled, **params)

    def transpose(ct: Any, *operands: Any, **params: Any) -> Any:
        if type(ct) is Zero:
            return [None for _ in operands]
        return transpose_rule(ct, *operands, **params)

    primitive_jvps[primitive], primitive_transposes[primitive] = jvp, transpose


def defbilinear(prim: Primitive, lhs_rule: Rule, rhs_rule: Rule) -> None:
    """Define a primitive as linear in each of two operands.

    Args:
        prim: the primitive.
        lhs_rule, rhs_rule: ``rule(cotangent, x, y, **params)`` gives the cotangent of the operand.

    Example:
        >>> import tfn
        >>> times_p = Primitive("times")
        >>> _ = times_p.def_impl(lambda x, y: x * y)
        >>> defbilinear(times_p, lambda ct, x, y: ct * y, lambda ct, x, y: x * ct)
        >>> [float(g) for g in tfn.grad(times_p.bind, (0, 1))(2.0, 5.0)]
        [5.0, 2.0]
    """
    defjvp(
        prim,
        lambda dx, x, y, **params: prim.bind(dx, y, **params),
        lambda dy, x, y, **params: prim.bind(x, dy, **params),
    )

    def transpose(ct: Any, x: Any, y: Any, **params: Any) -> Any:
        if type(ct) is Zero:
            return [None, None]
        if is_undefined_primal(x):
            return [lhs_rule(ct, x, y, **params), None]
        return [None, rhs_rule(ct, x, y, **params)]

    primitive_transposes[prim] = transpose


def get_primitive_transpose(p: Primitive) -> Rule:
    """The transpose rule of a primitive.

    Raises:
        MissingRuleError: if it has none.

    Example:
        >>> p = Primitive("minus")
        >>> deflinear(p, lambda ct: [-ct])
        >>> get_primitive_transpose(p)(1.0, None)
        [-1.0]
    """
    if p not in primitive_transposes:
        raise p.missing("transpose rule", f"primitive_transposes[{p.name}_p] = rule")
    return primitive_transposes[p]


# Batching.


def defvectorized(prim: Primitive) -> None:
    """Define a primitive as elementwise: it is bound on all lanes at once.

    Example:
        >>> import tfn
        >>> import tfn.numpy as tnp
        >>> square_p = Primitive("my_square")
        >>> _ = square_p.def_impl(lambda x: x * x)
        >>> defvectorized(square_p)
        >>> tfn.vmap(square_p.bind)(tnp.arange(3)).tolist()
        [0, 1, 4]
    """

    def batch(operands: Any, axes: Any, /, **params: Any) -> Any:
        at = next(axis for axis in axes if axis is not None)
        filled = _aligned(operands, axes, at)
        out = prim.bind(*filled, **params)
        return out, [at] * len(out) if prim.multiple_results else at

    primitive_batchers[prim] = batch


def defbroadcasting(prim: Primitive) -> None:
    """Define a primitive as elementwise, of operands that broadcast to each other.

    Example:
        >>> import tfn
        >>> import tfn.numpy as tnp
        >>> plus_p = Primitive("my_plus")
        >>> _ = plus_p.def_impl(lambda x, y: x + y)
        >>> defbroadcasting(plus_p)
        >>> tfn.vmap(plus_p.bind, (0, None))(tnp.arange(3), 10).tolist()
        [10, 11, 12]
    """

    def batch(operands: Any, axes: Any, /, **params: Any) -> Any:
        rank = max(tnp.ndim(x) - (axis is not None) for x, axis in zip(operands, axes, strict=True))
        filled = []
        for x, axis in zip(operands, axes, strict=True):
            if axis is not None:
                x = tnp.moveaxis(x, axis, 0)
                x = x.reshape(x.shape[0], *(1,) * (rank - x.ndim + 1), *x.shape[1:])
            filled.append(x)
        out = prim.bind(*filled, **params)
        return out, [0] * len(out) if prim.multiple_results else 0

    primitive_batchers[prim] = batch


def defreducer(prim: Primitive, ident: Any = None) -> None:
    """Define a primitive as a reduction over the axes that its parameter ``axes`` says.

    Example:
        >>> import tfn
        >>> import tfn.numpy as tnp
        >>> total_p = Primitive("total")
        >>> _ = total_p.def_impl(lambda x, *, axes: x.sum(axes))
        >>> defreducer(total_p)
        >>> tfn.vmap(lambda x: total_p.bind(x, axes=(0,)))(tnp.ones((2, 3))).tolist()
        [3.0, 3.0]
    """

    def batch(operands: Any, axes: Any, /, **params: Any) -> Any:
        (x,), (at,) = operands, axes
        gone = tuple(axis + (axis >= at) for axis in params["axes"])
        left = at - sum(axis < at for axis in gone)
        return prim.bind(x, **params | {"axes": gone}), left

    primitive_batchers[prim] = batch


def _aligned(operands: Any, axes: Any, at: int) -> list[Any]:
    """Operands with the mapped axis at one place, repeated along it where it is not there."""
    sizes = {tnp.shape(x)[axis] for x, axis in zip(operands, axes) if axis is not None}
    (size,) = sizes
    return [
        broadcast(x, size, at) if axis is None else tnp.moveaxis(x, axis, at)
        for x, axis in zip(operands, axes, strict=True)
    ]


def broadcast(x: Any, sz: int, axis: int, mesh_axis: object = None) -> Any:
    """An array repeated along a new axis.

    Example:
        >>> broadcast(1.0, 2, 0).tolist()
        [1.0, 1.0]
    """
    x = tnp.asarray(x)
    return tnp.broadcast_to(tnp.expand_dims(x, axis), (*x.shape[:axis], sz, *x.shape[axis:]))


def bdim_at_front(x: Any, bdim: int | None, size: int, mesh_axis: object = None) -> Any:
    """An array with its mapped axis in front, or repeated along one.

    Example:
        >>> bdim_at_front(tnp.ones((2, 3)), 1, 3).shape, bdim_at_front(1.0, None, 3).shape
        ((3, 2), (3,))
    """
    return broadcast(x, size, 0) if bdim is None else tnp.moveaxis(x, bdim, 0)


# Compiling.


def apply_primitive(prim: Primitive, *args: Any, **params: Any) -> Any:
    """The results of a primitive by its lowering rule, for concrete values.

    Raises:
        MissingRuleError: if it has none that can be traced.

    Example:
        >>> from tfn.compat.mlir import lower_fun, register_lowering
        >>> p = Primitive("add_one")
        >>> _ = register_lowering(p, lower_fun(lambda x: x + 1, multiple_results=False))
        >>> float(apply_primitive(p, 1.0))
        2.0
    """
    rule = lowerings.get(prim)
    if rule is None:
        raise prim.missing("lowering", f"mlir.register_lowering({prim.name}_p, rule)")
    return getattr(rule, "built", rule)(*args, **params)
