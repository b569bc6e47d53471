"""Rules of collectives: derivatives and axes of any order, in every kind of function.

A collective in a lane is held against the same function of the stack of all lanes, whose rules are
those of other ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tfn import lax
from tfn.dtypes import FLOAT32, INT32
from tfn.trace.argument import Leaf
from tfn.trace.mesh import AbstractMesh
from tfn.trace.named_sharding import PartitionSpec as P
from tfn.trace.op import Op
from tfn.trace.sharding import Axis, Collective, Exchange, Partition
from tfn.trace.uop import UOp
from tfn.transforms.batch import batch
from tfn.transforms.shard.collective_rules import collective
from tfn.transforms.shard.shard_map import shard_map
from tfn.transforms.transpose import pull

Function = Callable[..., Any]
RNG = np.random.default_rng(3)
N = 4
GROUPS = [[0, 3], [2, 1]]

COLLECTIVES: dict[str, tuple[Function, Function]] = {
    "psum": (lambda v: lax.psum(v, "i"), lambda x: each(x.sum(0))),
    "pmean": (lambda v: lax.pmean(v, "i"), lambda x: each(x.mean(0))),
    "pmax": (lambda v: lax.pmax(v, "i"), lambda x: each(x.max(0))),
    "pmin": (lambda v: lax.pmin(v, "i"), lambda x: each(x.min(0))),
    "gather": (lambda v: lax.all_gather(v, "i", axis=1), lambda x: each(x.swapaxes(0, 1))),
    "gather tiled": (
        lambda v: lax.all_gather(v, "i", tiled=True),
        lambda x: each(x.reshape(-1, x.shape[2])),
    ),
    "scatter": (lambda v: lax.psum_scatter(v, "i"), lambda x: x.sum(0)),
    "scatter tiled": (
        lambda v: lax.psum_scatter(v, "i", tiled=True),
        lambda x: x.sum(0)[:, None],
    ),
    "all to all": (lambda v: lax.all_to_all(v, "i", 0, 1), lambda x: x.transpose(1, 2, 0)),
    "all to all tiled": (
        lambda v: lax.all_to_all(v, "i", 1, 0, tiled=True),
        lambda x: x.reshape(N, N, N, -1).transpose(2, 0, 1, 3).reshape(N, N * N, -1),
    ),
    "permute": (
        lambda v: lax.ppermute(v, "i", [(0, 2), (1, 0), (3, 1)]),
        lambda x: tnp.stack([x[1], x[3], x[0], 0 * x[0]]),
    ),
    "broadcast": (lambda v: lax.pbroadcast(v, "i", 2), lambda x: each(x[2])),
    "groups": (
        lambda v: lax.psum(v, "i", axis_index_groups=GROUPS),
        lambda x: tnp.stack([x[0] + x[3], x[1] + x[2], x[1] + x[2], x[0] + x[3]]),
    ),
    "groups gather": (
        lambda v: lax.all_gather(v, "i", axis_index_groups=GROUPS),
        lambda x: x[np.array([[0, 3], [2, 1], [2, 1], [0, 3]])],
    ),
    "groups scatter": (
        lambda v: lax.psum_scatter(v, "i", axis_index_groups=GROUPS, tiled=True),
        lambda x: tnp.stack([(x[0] + x[3])[:2], (x[1] + x[2])[2:],
                             (x[1] + x[2])[:2], (x[0] + x[3])[2:]]),
    ),
}  # fmt: skip
"""A collective of v:f32[4,8] in each of 4 lanes, and what it is of the stack f32[4,4,8]."""


def each(x: Any) -> Any:
    return tnp.stack([x] * N)


def lanes(f: Function) -> Function:
    return tfn.vmap(f, axis_name="i")


def normal(*shape: int) -> Any:
    return tnp.asarray(RNG.normal(size=shape).astype(np.float32))


def close(found: Any, expected: Any) -> None:
    found, expected = tfn.tree.leaves(found), tfn.tree.leaves(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


X, V = normal(N, N, 8), normal(N, N, 8)
every = pytest.mark.parametrize(("f", "of_stack"), COLLECTIVES.values(), ids=list(COLLECTIVES))
some = pytest.mark.parametrize(
    ("f", "of_stack"), in_turn(3, COLLECTIVES.values()), ids=in_turn(3, COLLECTIVES)
)


@every
def test_values(f: Function, of_stack: Function) -> None:
    close(lanes(f)(X), of_stack(X))
    close(tfn.jit(lanes(f))(X), of_stack(X))
    close(lanes(tfn.jit(f))(X), of_stack(X))


@every
def test_forward_mode(f: Function, of_stack: Function) -> None:
    expected = tfn.jvp(lambda x: of_stack(tnp.sin(x)), (X,), (V,))
    close(lanes(lambda x, v: tfn.jvp(lambda x: f(tnp.sin(x)), (x,), (v,)))(X, V), expected)
    close(tfn.jvp(lanes(lambda x: f(tnp.sin(x))), (X,), (V,)), expected)


@every
def test_reverse_mode(f: Function, of_stack: Function) -> None:
    y, back = tfn.vjp(lambda x: of_stack(tnp.sin(x)), X)
    ct = normal(*y.shape)
    expected = back(ct)[0]
    close(lanes(lambda x, c: tfn.vjp(lambda x: f(tnp.sin(x)), x)[1](c)[0])(X, ct), expected)
    close(tfn.vjp(lanes(lambda x: f(tnp.sin(x))), X)[1](ct)[0], expected)
    checkpointed = tfn.checkpoint(lambda x: f(tnp.sin(x)))
    close(lanes(lambda x, c: tfn.vjp(checkpointed, x)[1](c)[0])(X, ct), expected)


@every
def test_transposes_are_adjoint(f: Function, of_stack: Function) -> None:
    """The sum over lanes of <ct, J v> is that of <J' ct, v>."""

    def both(x: Any, v: Any) -> Any:
        y, dy = tfn.jvp(f, (x,), (v,))
        ct = tnp.cos(3 * y + lax.axis_index("i"))
        (back,) = tfn.vjp(f, x)[1](ct)
        return (ct * dy).sum(), (back * v).sum()

    forward, backward = lanes(both)(X, V)
    close(forward.sum(), backward.sum())


@every
def test_second_derivatives(f: Function, of_stack: Function) -> None:
    def twice(g: Function) -> Function:
        first = tfn.grad(lambda x: tnp.sin(g(x * x)).sum())
        return tfn.grad(lambda x: (first(x) * tnp.cos(x)).sum())

    close(lanes(twice(f))(X), twice(of_stack)(X))
    close(twice(lanes(f))(X), twice(of_stack)(X))


@every
def test_other_axes(f: Function, of_stack: Function) -> None:
    x = normal(N, N, 8, 3)
    expected = tnp.stack([of_stack(x[..., k]) for k in range(3)])
    inside = lanes(tfn.vmap(f, in_axes=-1))
    close(inside(x), expected.swapaxes(0, 1))
    close(tfn.vmap(lanes(f), in_axes=-1)(x), expected)
    other = lanes(tfn.vmap(lambda v: f(v) + lax.axis_index("j"), in_axes=-1, axis_name="j"))
    numbers = tnp.arange(3.0).reshape(1, 3, *(1,) * (expected.ndim - 2))
    close(other(x), expected.swapaxes(0, 1) + numbers)


@some
def test_inside_of_loops_and_branches(f: Function, of_stack: Function) -> None:
    def steps(g: Function) -> Function:
        def run(x: Any) -> Any:
            def body(total: Any, k: Any) -> Any:
                y = g(tnp.sin(total * x * k))
                return tnp.tanh(total + y.mean()), y

            return lax.scan(body, tnp.float32(0.5), tnp.arange(1.0, 3.0))

        return run

    def of_all(x: Any) -> Any:
        """The same on the stack: one total for each lane."""
        totals, ys = tnp.full(N, 0.5), []
        for k in (1.0, 2.0):
            y = of_stack(tnp.sin(totals[:, None, None] * x * k))
            totals = tnp.tanh(totals + y.reshape(N, -1).mean(1))
            ys.append(y)
        return totals, tnp.stack(ys, 1)

    close(lanes(steps(f))(X), of_all(X))
    slope = tfn.grad(lambda x: of_all(x)[0].sum())(X)
    close(tfn.grad(lambda x: lanes(steps(f))(x)[0].sum())(X), slope)
    close(lanes(tfn.grad(lambda x: steps(f)(x)[0]))(X), slope)
    count = lambda x: lax.while_loop(
        lambda c: lax.pmax(c[0], "i") < 3, lambda c: (c[0] + 1, f(x) * c[0]), (1, f(x))
    )[1]
    close(lanes(count)(X), 2 * of_stack(X))
    choose = lambda x: lax.cond(lax.axis_index("i") < 2, f, lambda x: 2 * f(x), x)
    scale = tnp.array([1.0, 1.0, 2.0, 2.0]).reshape(N, *(1,) * (of_stack(X).ndim - 1))
    close(lanes(choose)(X), of_stack(X) * scale)
    same_branch = lambda x: lax.cond(lax.psum(1.0, "i") + lax.pmax(x.max(), "i") > 0, f, f, x)
    close(lanes(same_branch)(X), of_stack(X))


@pytest.mark.parametrize("check", in_turn(2, [True, False]))
@every
def test_parts_on_devices(f: Function, of_stack: Function, check: bool) -> None:
    """The same over the axis of a mesh, where results that all devices share have no sum of their
    own in their transposes."""
    options = {"mesh": AbstractMesh((N,), ("i",)), "in_specs": P("i"), "out_specs": P("i")}
    g = shard_map(lambda x: f(tnp.sin(x[0]))[None], check_vma=check, **options)
    close(tfn.jit(g)(X), of_stack(tnp.sin(X)))
    expected = tfn.grad(lambda x: (of_stack(tnp.sin(x)) ** 2).sum())(X)
    close(tfn.jit(tfn.grad(lambda x: (g(x) ** 2).sum()))(X), expected)


def with_rule(kind: str, f: Function) -> Function:
    """A function whose derivative is three times the true one, by a rule of the user's."""
    if kind == "custom_jvp":
        g = tfn.custom_jvp(f)
        g.defjvp(lambda xs, dxs: (f(*xs), tfn.jvp(f, (3 * xs[0],), (3 * dxs[0],))[1]))
        return g
    h = tfn.custom_vjp(f)
    h.defvjp(lambda x: (f(x), x), lambda x, ct: (3 * tfn.vjp(f, 3 * x)[1](ct)[0],))
    return h


LINEAR = [name for name in COLLECTIVES if name not in ("pmax", "pmin")]


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
@pytest.mark.parametrize("name", in_turn(2, LINEAR))
def test_rules_of_the_user_name_axes(name: str, kind: str) -> None:
    """Also where they run when the axis has been mapped already."""
    f, of_stack = COLLECTIVES[name]
    g = with_rule(kind, f)
    y, back = tfn.vjp(of_stack, X)
    ct = normal(*y.shape)
    expected = 3 * back(ct)[0]
    close(tfn.vjp(lanes(g), X)[1](ct)[0], expected)
    close(lanes(lambda x, c: tfn.vjp(g, x)[1](c)[0])(X, ct), expected)
    close(tfn.jit(lambda x, c: tfn.vjp(lanes(tfn.jit(g)), x)[1](c)[0])(X, ct), expected)
    two = tfn.vmap(lanes(g), in_axes=-1, out_axes=-1)
    stacks = tnp.stack([X, 2 * X], -1), tnp.stack([ct, ct], -1)
    close(tfn.vjp(two, stacks[0])[1](stacks[1])[0], tnp.stack([expected] * 2, -1))


def test_sizes_in_programs_that_are_kept() -> None:
    """A jitted function, and the body of a loop, are traced for each axis that they use."""
    mean = tfn.jit(lambda x: lax.psum(x, "i") / lax.axis_size("i"))
    share = tfn.jit(lambda x: x / lax.axis_size("i"))
    body = lambda c, x: (c + x / lax.axis_size("i"), None)
    for n in (2, 3, 2, 1):
        x = tnp.arange(float(n))
        close(lanes(mean)(x), tnp.full(n, x.mean()))
        close(lanes(lambda x: share(6.0) + 0 * x)(x), tnp.full(n, 6.0 / n))
        close(lanes(lambda x: lax.scan(body, 0.0, tnp.ones(3))[0] + 0 * x)(x), tnp.full(n, 3 / n))
    with pytest.raises(tfn.errors.AxisError):
        share(6.0)


def test_a_function_that_asks_for_an_axis_is_traced_again_where_there_is_one() -> None:
    @tfn.jit
    def total(x: Any) -> Any:
        try:
            return lax.psum(x, "i")
        except NameError:
            return x

    assert float(total(2.0)) == 2
    assert lanes(lambda x: total(2.0) + 0 * x)(tnp.zeros(3)).tolist() == [6, 6, 6]
    assert float(total(2.0)) == 2


def test_gradients_of_replicated_weights_are_those_of_the_whole_batch() -> None:
    w, x, y = normal(8, 3), normal(N, 5, 8), normal(N, 5, 3)

    def loss(w: Any, x: Any, y: Any) -> Any:
        return tnp.mean((tnp.tanh(x @ w) - y) ** 2)

    step = lambda w, x, y: lax.pmean(tfn.grad(loss)(w, x, y), "i")
    found = tfn.vmap(step, in_axes=(None, 0, 0), out_axes=None, axis_name="i")(w, x, y)
    close(found, tfn.grad(loss)(w, x.reshape(-1, 8), y.reshape(-1, 3)))


def test_ties_share_the_derivative_of_a_maximum() -> None:
    slope = lanes(lambda x: tfn.jvp(lambda x: lax.pmax(x, "i"), (x,), (x + 1,))[1])
    assert slope(tnp.array([2.0, 5.0, 5.0])).tolist() == [6.0, 6.0, 6.0]
    gradient = tfn.grad(lambda x: lanes(lambda v: lax.pmax(v, "i"))(x)[0])
    assert gradient(tnp.array([2.0, 5.0, 5.0])).tolist() == [0.0, 0.5, 0.5]


# Nodes.


def leaf(*shape: int, dtype: Any = FLOAT32) -> UOp:
    return UOp(Op.LEAF, (), Leaf(shape, dtype))


def node(kind: Exchange, *shape: int, **options: Any) -> tuple[UOp, UOp, UOp]:
    x, index = leaf(*shape), leaf(dtype=INT32)
    return collective(kind, x, index, Axis("i", 3), **options), x, index


def backwards(kind: Exchange, *shape: int, **options: Any) -> UOp:
    y, x, _ = node(kind, *shape, **options)
    (ct,) = pull([y], [x], [leaf(*y.shape)])
    assert ct is not None
    return ct


def test_transposes() -> None:
    """The transpose of what is the same on all devices moves nothing, and the other way round."""
    kinds = {
        (Exchange.REDUCE, False): Exchange.REDUCE,
        (Exchange.REDUCE, True): Exchange.VARY,
        (Exchange.GATHER, False): Exchange.SCATTER,
        (Exchange.SCATTER, False): Exchange.GATHER,
        (Exchange.TRANSPOSE, False): Exchange.TRANSPOSE,
    }
    for (kind, invariant), back in kinds.items():
        assert backwards(kind, 3, 2, invariant=invariant).arg.kind is back
    back = backwards(Exchange.VARY, 2).arg
    assert (back.kind, back.invariant) == (Exchange.REDUCE, True)
    back = backwards(Exchange.PERMUTE, 2, pairs=((0, 1), (1, 2))).arg
    assert set(back.pairs) == {(1, 0), (2, 1)}
    assert backwards(Exchange.GATHER, 2, invariant=True).shape == (2,)


def test_a_sum_over_lanes_is_the_same_in_all_of_them() -> None:
    y, x, index = node(Exchange.REDUCE, 2)
    many = {x: leaf(3, 2), index: leaf(3, dtype=INT32)}
    ((total, is_many),) = batch([y], many, 3)
    assert not is_many and total.op is Op.REDUCE
    ((scaled, is_many),) = batch([y], {index: many[index]}, 3)
    assert not is_many and scaled.op is Op.MUL


def test_an_axis_of_another_name_stays_outside_of_the_exchange() -> None:
    y, x, index = node(Exchange.SCATTER, 3, 2)
    ((out, is_many),) = batch([y], {x: leaf(5, 3, 2)}, 5)
    assert is_many and out.shape == (5, 2) and out.op is Op.COLLECTIVE
    assert out.src[0].shape == (3, 5, 2) and out.src[1] is index


def test_divisions_leave_a_new_axis_whole() -> None:
    halves = Partition((Axis("x", 2),), ((), ("x",)))
    x = leaf(3, 8)
    for op in (Op.SHARD, Op.CONSTRAIN, Op.UNSHARD):
        ((y, _),) = batch([UOp(op, (x,), halves)], {x: leaf(5, 3, 8)}, 5)
        assert y.arg.spec == ((), (), ("x",))


def test_cotangents_of_unchecked_parts_are_added() -> None:
    axis = Axis("x", 2)
    x = leaf(3, 8)
    y = UOp(Op.SHARD, (x,), Partition((axis,), ((), ()), ("x",), (axis,)))
    (ct,) = pull([y], [x], [leaf(3, 8)])
    assert ct is not None and ct.op is Op.UNSHARD
    assert ct.src[0].arg == Collective(Exchange.REDUCE, axis)
