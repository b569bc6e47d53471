"""Types over explicit axes: what JAX 0.10.2 says of each program on the same mesh of 4 x 2 devices.

An expectation is a type, as `typeof` prints it, or a part of the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.transforms.shard.eight import eight_devices
from tfn import lax
from tfn.errors import ShardingTypeError
from tfn.sharding import P, reshard, typeof


@pytest.fixture(autouse=True)
def _mesh() -> Iterator[None]:
    with tfn.set_mesh(tfn.make_mesh((4, 2), ("x", "y"))):
        yield


@pytest.fixture(autouse=True, scope="module")
def _devices() -> Iterator[None]:
    yield from eight_devices()


def over(shape: tuple[int, ...], *spec: Any) -> tfn.Array:
    return reshard(tnp.arange(float(np.prod(shape))).reshape(shape), P(*spec))


VALUES: dict[str, tuple[tuple[int, ...], tuple[Any, ...]]] = {
    "x": ((8, 4), ("x", None)),
    "y": ((8, 4), (None, "y")),
    "z": ((8, 4), ("y", None)),
    "xy": ((8, 4), ("x", "y")),
    "both": ((8, 4), (("x", "y"), None)),
    "line": ((8,), ("x",)),
    "w": ((4, 8), (None, "y")),
    "wx": ((4, 8), ("x", None)),
    "wy": ((4, 8), ("y", None)),
}
ROWS = np.array([0, 1])

# fmt: off
TABLE: dict[str, tuple[Any, str]] = {
    "both names on one axis": (lambda v: v["both"] + 1, "f32[8@(x,y),4]"),
    "sum of two": (lambda v: v["x"] + v["y"], "f32[8@x,4@y]"),
    "sum of conflicting": (lambda v: v["x"] + v["z"], "add got arrays of which one axis"),
    "with an array on no mesh": (lambda v: v["x"] * np.ones((8, 4), "float32"), "f32[8@x,4]"),
    "transpose": (lambda v: v["x"].T, "f32[4,8@x]"),
    "sum over the divided axis": (lambda v: v["x"].sum(0), "f32[4]"),
    "sum over the other": (lambda v: v["x"].sum(1), "f32[8@x]"),
    "argmax": (lambda v: v["x"].argmax(0), "i32[4]"),
    "softmax": (lambda v: tfn.nn.softmax(v["x"], axis=0), "f32[8@x,4]"),
    "product of rows and columns": (lambda v: v["x"] @ v["w"], "f32[8@x,8@y]"),
    "product, one side summed": (lambda v: v["x"] @ v["wx"], "f32[8@x,8]"),
    "product, both sides summed": (lambda v: v["y"] @ v["wy"], "sums over axes that 'y' divides"),
    "the same with out_sharding": (
        lambda v: tnp.matmul(v["y"], v["wy"], out_sharding=P("x")), "f32[8@x,8]"),
    "einsum with out_sharding": (
        lambda v: tnp.einsum("ij,jk->ik", v["y"], v["wy"], out_sharding=P("x", "y")),
        "f32[8@x,8@y]"),
    "product with one name twice": (lambda v: v["z"] @ v["w"], "of which 'y' divides two axes"),
    "outer": (lambda v: tnp.outer(v["line"], v["line"]), "of which 'x' divides two axes"),
    "einsum of a diagonal": (lambda v: tnp.einsum("ij,ij->i", v["x"], v["x"]), "f32[8@x]"),
    "reshape that merges": (lambda v: v["x"].reshape(32), "f32[32@x]"),
    "reshape that splits": (lambda v: v["line"].reshape(4, 2), "f32[4@x,2]"),
    "reshape of a minor axis": (lambda v: v["y"].reshape(32), "reshape cannot keep the division"),
    "reshape into too few": (lambda v: v["line"].reshape(2, 4), "shape [2,4], which cannot"),
    "reshape with out_sharding": (
        lambda v: tnp.reshape(v["y"], (32,), out_sharding=P("x")), "f32[32@x]"),
    "a new axis": (lambda v: v["x"][None], "f32[1,8@x,4]"),
    "broadcast": (lambda v: tnp.broadcast_to(v["line"][:, None], (8, 4)), "f32[8@x,4]"),
    "concatenate": (lambda v: tnp.concatenate([v["x"], v["x"]]), "f32[16@x,4]"),
    "concatenate conflicting": (
        lambda v: tnp.concatenate([v["x"], v["z"]], 1), "concatenate got arrays"),
    "stack": (lambda v: tnp.stack([v["x"], v["x"]]), "f32[2,8@x,4]"),
    "slice of the other axis": (lambda v: v["x"][:, :2], "f32[8@x,2]"),
    "one row": (lambda v: v["x"][0], "gather looks up rows"),
    "rows": (lambda v: v["x"][ROWS], "gather looks up rows"),
    "rows with out_sharding": (
        lambda v: v["x"].at[np.arange(4)].get(out_sharding=P("x")), "f32[4@x,4]"),
    "columns": (lambda v: v["x"][:, ROWS], "f32[8@x,2]"),
    "divided rows by divided indices": (
        lambda v: v["w"][v["line"].astype(int)], "by divided indices"),
    "update of a row": (lambda v: v["x"].at[0].set(1.0), "scatter looks up rows"),
    "update with out_sharding": (
        lambda v: v["x"].at[0].set(1.0, out_sharding=P("x")), "f32[8@x,4]"),
    "pad": (lambda v: tnp.pad(v["x"], ((0, 8), (0, 1))), "f32[16@x,5]"),
    "flip": (lambda v: tnp.flip(v["x"], 0), "f32[8@x,4]"),
    "roll": (lambda v: tnp.roll(v["x"], 1, 0), "shape [1,4], which cannot"),
    "sort": (lambda v: tnp.sort(v["x"], 0), "sort needs the whole of an axis"),
    "sort of the other axis": (lambda v: tnp.sort(v["x"], 1), "f32[8@x,4]"),
    "running sum of the other axis": (lambda v: tnp.cumsum(v["x"], 1), "f32[8@x,4]"),
    "fft": (lambda v: tnp.fft.fft(v["x"], axis=0), "c64[8@x,4]"),
    "top_k": (lambda v: lax.top_k(v["x"], 2)[1], "i32[8@x,2]"),
    "one_hot": (lambda v: tfn.nn.one_hot(v["line"].astype(int), 4), "f32[8@x,4]"),
    "zeros": (lambda v: tnp.zeros((8, 4), out_sharding=P("x")), "f32[8@x,4]"),
    "gradient": (lambda v: tfn.grad(lambda x: (x**2).sum())(v["x"]), "f32[8@x,4]"),
    "gradient to a weight": (
        lambda v: tfn.grad(lambda w: tnp.tanh(v["x"] @ w).sum())(v["w"]), "f32[4,8@y]"),
    "vjp": (lambda v: tfn.vjp(tnp.sin, v["x"])[1](tnp.ones((8, 4)))[0], "f32[8@x,4]"),
    "vmap": (lambda v: tfn.vmap(tnp.sum)(v["x"]), "f32[8@x]"),
    "vmap over an axis that is not": (lambda v: tfn.vmap(tnp.sum, 1)(v["x"]), "f32[4]"),
    "vmap conflicting": (lambda v: tfn.vmap(tnp.add)(v["x"], v["z"]), "needs mapped axes"),
    "scan": (lambda v: lax.scan(lambda c, r: (c * 2, c + r), tnp.zeros(8, out_sharding=P("y")),
                                v["w"])[1], "f32[4,8@y]"),
    "scan over a divided axis": (
        lambda v: lax.scan(lambda c, r: (c, r), 0.0, v["x"])[1], "runs over an axis"),
    "scan with another carry": (
        lambda v: lax.scan(lambda c, r: (c + r, r), tnp.zeros(8), v["w"])[0],
        "must return a carry"),
    "fori_loop": (lambda v: lax.fori_loop(0, 3, lambda i, c: c + 1, v["x"]), "f32[8@x,4]"),
    "while_loop": (
        lambda v: lax.while_loop(lambda c: c.sum() < 0, lambda c: c + 1, v["x"]), "f32[8@x,4]"),
    "cond": (lambda v: lax.cond(v["x"].sum() > 0, lambda: v["x"], lambda: 2 * v["x"]),
             "f32[8@x,4]"),
    "cond conflicting": (
        lambda v: tfn.jit(lambda x, y: lax.cond(x.sum() > 0, lambda: x, lambda: y))(v["x"], v["y"]),
        "the branches of"),
    "constraint that holds": (
        lambda v: lax.with_sharding_constraint(v["x"], P("x")), "f32[8@x,4]"),
    "constraint that does not": (
        lambda v: lax.with_sharding_constraint(v["x"], P("y")), "says how a value is divided"),
    "reshard": (lambda v: reshard(v["x"], P(None, "x")), "f32[8,4@x]"),
    "auto_axes": (lambda v: tfn.sharding.auto_axes(
        lambda x: tnp.sort(x.reshape(-1)), out_sharding=P("y"))(v["x"]), "f32[32@y]"),
    "shard_map by types": (lambda v: tfn.shard_map(lambda p: 2 * p, out_specs=P("x"))(v["x"]),
                           "f32[8@x,4]"),
    "unreduced": (lambda v: tnp.dot(v["y"], v["wy"], out_sharding=P(unreduced={"y"})),
                  "f32[8,8]{U:y}"),
    "reduced": (lambda v: 2 * reshard(v["wy"], P(reduced={"x"})), "f32[4,8]{R:x}"),
}
# fmt: on


@pytest.mark.parametrize("how", ["eager", "jit"])
@pytest.mark.parametrize("name", in_turn(2, TABLE))
def test_types_and_values(name: str, how: str) -> None:
    f, want = TABLE[name]
    plain = {key: over(shape, *spec) for key, (shape, spec) in VALUES.items()}
    run = tfn.jit(f) if how == "jit" else f
    if "[" in want and want[0] in "fic" and "which" not in want:
        got = run(plain)
        assert str(typeof(got)) == want
        if how == "jit":
            assert str(tfn.eval_shape(f, plain)) == want, "traced"
        with tfn.set_mesh(tfn.make_mesh((4, 2), ("x", "y"), tfn.sharding.AxisType.Auto)):
            free = {key: over(shape, *spec) for key, (shape, spec) in VALUES.items()}
            if "unreduced" not in name and "types" not in name:
                np.testing.assert_allclose(got, f(free), rtol=1e-5, atol=1e-5)
    else:
        with pytest.raises(ShardingTypeError) as error:
            run(plain)
        assert want in str(error.value)


def test_parts_that_have_still_to_be_added_up() -> None:
    y, wy = over((8, 4), None, "y"), over((4, 8), "y", None)
    u = tnp.dot(y, wy, out_sharding=P(unreduced={"y"}))
    for got, want in (
        (u + u, "f32[8,8]{U:y}"),
        (u.T, "f32[8,8]{U:y}"),
        (u.sum(), "f32[]{U:y}"),
        (u * reshard(np.ones((8, 8), "float32"), P(reduced={"y"})), "f32[8,8]{U:y}"),
        (reshard(u, P()), "f32[8,8]"),
        (reshard(u, P("y")), "f32[8@y,8]"),
        (reshard(tnp.ones((8, 8)), P("x", unreduced={"y"})), "f32[8@x,8]{U:y}"),
    ):
        assert str(typeof(got)) == want
    np.testing.assert_allclose(reshard(u + u, P("x")), 2 * np.asarray(y) @ np.asarray(wy))
    for f in (tnp.sin, lambda u: u + 1.0, lambda u: u @ u, lambda u: u * u, tnp.abs):
        with pytest.raises(ShardingTypeError, match="still to be added up"):
            f(u)
    with pytest.raises(ShardingTypeError, match="still to be added up"):
        tfn.jit(lambda u: 1.0 + u)(u)


def test_cotangents_of_reduced_values_are_unreduced() -> None:
    x, w = over((8, 4), "x"), reshard(np.ones((4, 8), "float32"), P(reduced={"x"}))
    loss = lambda w: ((x @ w) ** 2).sum()
    slope = tfn.grad(loss)(w)
    assert str(typeof(slope)) == "f32[4,8]{U:x}" == str(typeof(tfn.jit(tfn.grad(loss))(w)))
    whole = tfn.grad(lambda w: loss(reshard(w, P(reduced={"x"}))))(tnp.ones((4, 8)))
    np.testing.assert_allclose(whole, reshard(slope, P()), rtol=1e-6)
    with pytest.raises(ShardingTypeError, match="not all are reduced"):
        w + reshard(np.ones((4, 8), "float32"), P("x"))


def test_sums_of_a_loop_are_exchanged_once() -> None:
    ys, w, partial = over((3, 8, 4), None, None, "y"), over((4, 8), "y"), P(unreduced={"y"})

    def accumulated(ys: Any, w: Any) -> Any:
        def body(total: Any, y: Any) -> Any:
            return total + tnp.einsum("ij,jk->ik", y, w, out_sharding=partial), None

        begin = tnp.zeros((8, 8), out_sharding=partial)
        return reshard(lax.scan(body, begin, ys)[0], P("y"))

    f = tfn.jit(accumulated)
    np.testing.assert_allclose(f(ys, w), sum(np.asarray(y) @ np.asarray(w) for y in ys), rtol=1e-6)
    exchanges = [
        line for line in str(tfn.show(f, ys, w, at="shards")).splitlines() if "time" in line
    ]
    assert exchanges == [
        "reduce_scatter over y: f32[2,4,8], 1 time, 128 bytes received by a device"
    ]

    def read(ys: Any, w: Any) -> Any:
        """A loop that needs the sums in each step adds them up there."""

        def body(total: Any, y: Any) -> Any:
            return reshard(tnp.tanh(reshard(total, P())) + y @ reshard(w, P()), partial), None

        return reshard(lax.scan(body, tnp.zeros((8, 8), out_sharding=partial), ys)[0], P())

    want = np.zeros((8, 8), np.float32)
    for y in np.asarray(ys):
        want = np.tanh(want) + y @ np.asarray(w)
    got = tfn.jit(read)(reshard(ys, P()), w)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_what_is_inside_of_manual_regions() -> None:
    xy = over((8, 4), "x", "y")
    seen: list[str] = []

    def f(v: Any) -> Any:
        seen.append(str(typeof(v)))
        return lax.psum(v, "x")

    got = tfn.shard_map(f, in_specs=P("x"), out_specs=P(), axis_names={"x"})(xy)
    assert seen == ["f32[2,4@y]"] and str(typeof(got)) == "f32[2,4@y]"
    np.testing.assert_allclose(got, np.asarray(xy).reshape(4, 2, 4).sum(0))
