"""Each kind of loop and branch around a step, beside the same in plain Python.

A step is a function from vectors to vectors of one size.  A control makes a new step of a step, so
controls nest; `plain` does it with Python's own loops and branches, on values that are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tfn
import tfn.numpy as tnp
from tfn import lax, tree

Step = Callable[[Any], Any]
Control = Callable[[Step], Step]
FACTORS = (0.9, -0.7, 1.1)


@dataclass(frozen=True)
class Pair:
    """A control and its meaning; `reverse` says whether it has a reverse mode."""

    name: str
    control: Control
    plain: Control
    reverse: bool = True


def _scan(reverse: bool) -> Pair:
    def control(step: Step) -> Step:
        def run(x: Any) -> Any:
            def body(carry: Any, k: Any) -> Any:
                new = step(carry["v"] * k)
                return {"v": new, "n": carry["n"] + 1}, (new * x, None)

            start = {"v": x, "n": 0}
            last, (ys, _) = lax.scan(body, start, tnp.array(FACTORS), reverse=reverse)
            return last["v"] + (ys * tnp.array([[1.0], [2.0], [3.0]])).sum(0) * last["n"]

        return run

    def plain(step: Step) -> Step:
        def run(x: Any) -> Any:
            v, ys = x, [None] * 3
            for i in (2, 1, 0) if reverse else (0, 1, 2):
                v = step(v * FACTORS[i])
                ys[i] = v * x
            return v + (ys[0] * 1.0 + ys[1] * 2.0 + ys[2] * 3.0) * 3

        return run

    return Pair("scan reverse" if reverse else "scan", control, plain)


def _while(step: Step) -> Step:
    def run(x: Any) -> Any:
        def goes_on(s: Any) -> Any:
            return (s[0] < 4) & (tnp.abs(s[1]).sum() < 6.0)

        return lax.while_loop(goes_on, lambda s: (s[0] + 1, step(s[1]) + 0.5 * x), (0, x))[1]

    return run


def _plain_while(step: Step) -> Step:
    def run(x: Any) -> Any:
        n, v = 0, x
        while n < 4 and tnp.abs(v).sum() < 6.0:
            n, v = n + 1, step(v) + 0.5 * x
        return v

    return run


def _plain_fori(step: Step) -> Step:
    def run(x: Any) -> Any:
        v = x
        for i in range(1, 4):
            v = step(v) + i * 0.1 * x
        return v

    return run


def _switch(step: Step) -> Step:
    branches = [lambda x: step(x) * 2, lambda x: x * x, lambda x: step(-x)]
    return lambda x: lax.switch((x.sum() * 2).astype(int), branches, x)


def _plain_switch(step: Step) -> Step:
    branches = [lambda x: step(x) * 2, lambda x: x * x, lambda x: step(-x)]
    return lambda x: branches[min(max(int(x.sum() * 2), 0), 2)](x)


def _affine(step: Step) -> Step:
    """The recurrence h = a h + b for all elements, as one associative scan."""

    def run(x: Any) -> Any:
        pairs = {"a": tnp.sin(x), "b": step(x)}
        both = lambda s, t: {"a": s["a"] * t["a"], "b": s["b"] * t["a"] + t["b"]}
        return lax.associative_scan(both, pairs)["b"]

    return run


def _plain_affine(step: Step) -> Step:
    def run(x: Any) -> Any:
        a, b, h, out = tnp.sin(x), step(x), 0.0, []
        for i in range(x.shape[0]):
            h = a[i] * h + b[i]
            out.append(h)
        return tnp.stack(out)

    return run


def _segments(step: Step) -> Step:
    def run(x: Any) -> Any:
        body = lambda v, k: (step(v * k), v)
        last, ys = lax.scan(body, x, tnp.array(FACTORS), checkpoint_every=2)
        return last + ys.sum(0)

    return run


def _plain_segments(step: Step) -> Step:
    def run(x: Any) -> Any:
        v, total = x, 0.0 * x
        for k in FACTORS:
            v, total = step(v * k), total + v
        return v + total

    return run


def _bounded(step: Step) -> Step:
    def run(x: Any) -> Any:
        goes_on = lambda s: (s[0] < 4) & (tnp.abs(s[1]).sum() < 6.0)
        body = lambda s: (s[0] + 1, step(s[1]) + 0.5 * x)
        return lax.while_loop(goes_on, body, (0, x), max_steps=5)[1]

    return run


def _custom_jvp(step: Step) -> Step:
    f = tfn.custom_jvp(step)
    f.defjvp(lambda primals, tangents: tfn.jvp(step, primals, tangents))
    return f


def _custom_vjp(step: Step) -> Step:
    f = tfn.custom_vjp(step)
    f.defvjp(lambda x: tfn.vjp(step, x), lambda pullback, ct: pullback(ct))
    return f


def _same(step: Step) -> Step:
    return step


LINE = tfn.ShapeDtypeStruct((3,), "float32")


def _slope(primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    return bent(x), (0.9 + 0.2 * x) * dx


@tfn.kernel(takes=LINE, gives=LINE, jvp=_slope)
def bent(loop: Any, x: Any, out: Any) -> None:
    """A kernel written by hand, with a rule for its derivatives."""
    i = loop(3)
    out[i] = x[i] * (0.9 + 0.1 * x[i])


PAIRS = (
    _scan(False),
    _scan(True),
    Pair("while", _while, _plain_while, reverse=False),
    Pair(
        "fori",
        lambda step: lambda x: lax.fori_loop(1, 4, lambda i, v: step(v) + i * 0.1 * x, x),
        _plain_fori,
    ),
    Pair(
        "cond",
        lambda step: (
            lambda x: lax.cond(
                x.sum() > 0, lambda v: step(v) * x, lambda v: tnp.sqrt(-v.sum()) * step(v), x
            )
        ),
        lambda step: lambda x: step(x) * x if x.sum() > 0 else tnp.sqrt(-x.sum()) * step(x),
    ),
    Pair("switch", _switch, _plain_switch),
    Pair(
        "map",
        lambda step: lambda x: lax.map(lambda k: step(x * k), tnp.array(FACTORS)).sum(0),
        lambda step: lambda x: step(x * 0.9) + step(x * -0.7) + step(x * 1.1),
    ),
    Pair("associative_scan", _affine, _plain_affine),
)

WRAPPERS = (
    Pair("scan checkpointed", _segments, _plain_segments),
    Pair("while bounded", _bounded, _plain_while),
    Pair("checkpoint", tfn.checkpoint, _same),
    Pair(
        "checkpoint dots",
        lambda step: tfn.checkpoint(step, policy=tfn.checkpoint_policies.dots_saveable),
        _same,
    ),
    Pair("custom_jvp", _custom_jvp, _same),
    Pair("custom_vjp", _custom_vjp, _same),
    Pair("call", tfn.call, _same),
    Pair(
        "kernel",
        lambda step: lambda x: step(bent(x)),
        lambda step: lambda x: step(x * (0.9 + 0.1 * x)),
    ),
)
"""The control flow around steps.  A function with rules of its own is a row."""

WEIGHTS = np.array([[0.5, -0.3, 0.2], [0.1, 0.4, -0.6], [-0.2, 0.3, 0.7]], np.float32)
POINTS = np.array([[0.3, -0.8, 0.9], [-0.4, 0.1, -0.6], [1.2, 0.7, 0.2]], np.float32)


def step(x: Any) -> Any:
    """The innermost step: it closes over an array."""
    return tnp.tanh(tnp.array(WEIGHTS) @ x)


def check(actual: Any, expected: Any, tolerance: float = 2e-4) -> None:
    """Two trees of arrays are equal but for rounding."""
    one, other = tree.flatten(actual), tree.flatten(expected)
    assert one[1] == other[1]
    for a, b in zip(one[0], other[0]):
        assert a.shape == b.shape
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), tolerance, tolerance)


def stack(f: Step, points: Sequence[Any]) -> Any:
    """The results for several points along a new first axis."""
    return tnp.stack([f(tnp.asarray(p)) for p in points])


def scalar(f: Step) -> Step:
    """A function with one number as its result."""
    return lambda x: (f(x) * tnp.array([1.0, -2.0, 0.5])).sum()


def check_transforms(f: Step, plain: Step, reverse: bool) -> None:
    """Every transform of a program with loops agrees with that of the unrolled one."""
    x, dx = tnp.asarray(POINTS[0]), tnp.asarray(POINTS[1])
    check(f(x), plain(x))
    check(tfn.jit(f)(x), plain(x))
    check(tfn.vmap(f)(tnp.asarray(POINTS)), stack(plain, POINTS))
    pushed = tfn.jvp(plain, (x,), (dx,))
    check(tfn.jvp(f, (x,), (dx,)), pushed)
    value, linear = tfn.linearize(f, x)
    check((value, linear(dx)), pushed)
    pushes = stack(lambda p: tfn.jvp(plain, (p,), (dx,))[1], POINTS)
    check(tfn.vmap(lambda p: tfn.jvp(f, (p,), (dx,))[1])(tnp.asarray(POINTS)), pushes)
    if reverse:
        slope = tfn.grad(scalar(plain))
        check(tfn.grad(scalar(f))(x), slope(x))
        check(tfn.jit(tfn.grad(scalar(f)))(x), slope(x))
        check(tfn.vmap(tfn.grad(scalar(f)))(tnp.asarray(POINTS)), stack(slope, POINTS))
        total = tfn.grad(lambda xs: tfn.vmap(scalar(f))(xs).sum())
        check(total(tnp.asarray(POINTS)), stack(slope, POINTS))


def check_nested(f: Step, plain: Step, reverse: bool, batched: bool = True) -> None:
    """The transforms that change loops most, for programs of which there are many.

    With `batched`, the gradient of a batch too, beside the batch of gradients.
    """
    x, dx, points = tnp.asarray(POINTS[0]), tnp.asarray(POINTS[1]), tnp.asarray(POINTS)
    value, linear = tfn.linearize(f, x)
    check((value, linear(dx)), tfn.jvp(plain, (x,), (dx,)))
    check(tfn.jit(tfn.vmap(f))(points), stack(plain, POINTS))
    if reverse:
        slopes = stack(tfn.grad(scalar(plain)), POINTS)
        check(tfn.jit(tfn.vmap(tfn.grad(scalar(f))))(points), slopes)
        if batched:
            check(tfn.grad(lambda xs: tfn.vmap(scalar(f))(xs).sum())(points), slopes)


def check_deep(f: Step, plain: Step, reverse: bool) -> None:
    """The least that tells a wrong rule of one inside another."""
    x, dx, points = tnp.asarray(POINTS[0]), tnp.asarray(POINTS[1]), tnp.asarray(POINTS)
    check(tfn.jit(lambda x, dx: tfn.jvp(f, (x,), (dx,)))(x, dx), tfn.jvp(plain, (x,), (dx,)))
    if reverse:
        slopes = stack(tfn.grad(scalar(plain)), POINTS)
        check(tfn.jit(tfn.vmap(tfn.grad(scalar(f))))(points), slopes)
