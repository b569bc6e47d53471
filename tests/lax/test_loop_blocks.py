"""Loops in blocks: the same results, and memory that is known."""

from __future__ import annotations

from typing import Any

import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.lax.control import check
from tfn import lax
from tfn.errors import ArgumentError
from tfn.lax.loop_blocks import checkpointed, unrolled

pytestmark = pytest.mark.usefixtures("compiled")

STATE = tnp.arange(48.0).reshape(3, 16) / 50
BYTES = STATE.nbytes
W = tnp.ones((16, 16)) / 16 + tnp.eye(16) / 2


def body(c: Any, x: Any) -> Any:
    new = tnp.sin(c @ W) + x
    return new, (new[0], {"sum": new.sum()})


def loss(xs: Any, start: Any = STATE, **options: Any) -> Any:
    last, (rows, sums) = lax.scan(body, start, xs, **options)
    return (last * last).sum() + (rows * rows).sum() + sums["sum"].sum() / 9


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("every", [1, 2, 3, 7, 100, "sqrt"])
@pytest.mark.parametrize("length", [0, 1, 7])
def test_a_checkpointed_scan_is_a_scan(length: int, every: Any, reverse: bool) -> None:
    xs = tnp.arange(length * 3.0).reshape(length, 3, 1) / 7
    expected = lax.scan(body, STATE, xs, reverse=reverse)
    options = {"reverse": reverse, "checkpoint_every": every}
    check(lax.scan(body, STATE, xs, **options), expected)
    slopes = tfn.jit(tfn.grad(lambda *a: loss(*a, **options), (0, 1)))(xs, STATE)
    check(slopes, tfn.grad(lambda *a: loss(*a, reverse=reverse), (0, 1))(xs, STATE))


def peak(f: Any, *args: Any) -> float:
    return float(tfn.jit(tfn.grad(f)).memory_analysis(*args).temporary_bytes / BYTES)


def test_memory_of_a_scan_grows_with_the_root() -> None:
    def f(**options: Any) -> Any:
        return lambda start, n=400: loss(None, start, length=n, **options)

    def alone(start: Any, **options: Any) -> Any:
        step = lambda c, _: (tnp.sin(c @ W), None)
        return lax.scan(step, start, None, 400, **options)[0].sum()

    full = peak(alone, STATE)
    root = peak(lambda s: alone(s, checkpoint_every="sqrt"), STATE)
    assert full >= 400 and root <= 2 * 20 + 12
    assert peak(lambda s: alone(s, checkpoint_every=100), STATE) >= 100
    twice = lambda s: alone(s, checkpoint_every=20, unroll=2)
    check(tfn.grad(twice)(STATE), tfn.grad(alone)(STATE), 1e-4)


def test_fori_loop() -> None:
    f = lambda x, **o: lax.fori_loop(2, 32, lambda i, v: tnp.sin(v @ W) * (1 + 0.01 * i), x, **o)
    check(f(STATE, checkpoint_every=5), f(STATE))
    total = lambda x, **o: (f(x, **o) ** 2).sum()
    check(tfn.grad(lambda x: total(x, checkpoint_every=5))(STATE), tfn.grad(total)(STATE), 1e-4)
    assert peak(lambda x: total(x, checkpoint_every="sqrt"), STATE) < 0.7 * peak(total, STATE)
    with pytest.raises(ArgumentError, match="unrolled or checkpointed if its bounds are known"):
        tfn.jit(lambda n: lax.fori_loop(0, n, lambda i, v: v, 1.0, checkpoint_every=2))(3)


def newton(a: Any, limit: int, **options: Any) -> Any:
    """Steps until the error is small, of a vector that is carried along."""
    goes_on = lambda s: (s[1] < limit) & (tnp.abs(s[0] * s[0] - a).max() > 1e-5)
    body = lambda s: (0.5 * (s[0] + a / s[0]), s[1] + 1)
    return lax.while_loop(goes_on, body, (tnp.ones_like(a), 0), **options)


@pytest.mark.parametrize("every", ["sqrt", None, 3])
@pytest.mark.parametrize("steps", in_turn(2, [0, 1, 4, 30]))
def test_a_bounded_while(steps: int, every: Any) -> None:
    a = tnp.array([2.0, 9.0, 0.5])

    def unrolled(a: Any) -> Any:
        x = tnp.ones_like(a)
        for _ in range(steps):
            if float(tnp.abs(x * x - a).max()) <= 1e-5:
                break
            x = 0.5 * (x + a / x)
        return x

    f = lambda a: newton(a, 1000, max_steps=steps, checkpoint_every=every)[0]
    check(f(a), unrolled(a))
    check(tfn.jit(tfn.jacrev(f))(a), tfn.jacrev(unrolled)(a))
    check(tfn.jacfwd(f)(a), tfn.jacfwd(unrolled)(a))
    rows = tfn.vmap(tfn.grad(lambda a: f(a).sum()))(a[:, None])
    check(rows, tnp.stack([tfn.grad(lambda a: unrolled(a).sum())(a[i : i + 1]) for i in range(3)]))
    check(tfn.grad(lambda b: tfn.vmap(f)(b).sum())(a[:, None]), rows)


def test_memory_of_a_bounded_while_grows_with_the_root() -> None:
    def f(x: Any, steps: int, **options: Any) -> Any:
        goes_on = lambda s: s[1] < 5
        body = lambda s: (tnp.sin(s[0] @ W), s[1] + 1)
        return lax.while_loop(goes_on, body, (x, 0), max_steps=steps, **options)[0].sum()

    sizes = {n: peak(lambda x, n=n: f(x, n), STATE) for n in (100, 400, 1600)}
    assert sizes[1600] <= 2.5 * 40 + 12 and sizes[400] <= 2.5 * 20 + 12
    assert sizes[1600] < 4.5 * sizes[100]
    assert peak(lambda x: f(x, 400, checkpoint_every=None), STATE) >= 400


def test_the_trace_does_not_depend_on_the_length() -> None:
    def text(n: int) -> int:
        f = lambda x: newton(x, 1000, max_steps=n * n)[0].sum()
        return str(tfn.make_jaxpr(tfn.grad(f))(tnp.ones(2))).count("\n")

    assert text(3) == text(30)


def test_steps_after_the_end_of_a_while_are_not_evaluated() -> None:
    """A step after the end would be NaN, and so would its derivative."""
    f = lambda x: lax.while_loop(lambda v: v > 0.5, lambda v: tnp.sqrt(v - 0.5), x, max_steps=20)
    assert float(tfn.grad(f)(0.9)) == pytest.approx(
        0.5 / (0.4**0.5) * 0.5 / (0.4**0.5 - 0.5) ** 0.5
    )
    assert not bool(tnp.isnan(tfn.vmap(tfn.grad(f))(tnp.array([0.9, 0.2, 0.8]))).any())


@pytest.mark.parametrize("every", [0, -1, "cube", 2.0, True])
def test_wrong_checkpoint_every_raises(every: Any) -> None:
    with pytest.raises(ArgumentError, match='a number of steps >= 1, or "sqrt"'):
        lax.scan(lambda c, x: (c, x), STATE, None, 3, checkpoint_every=every)
    with pytest.raises(ArgumentError, match="while_loop needs max_steps >= 0"):
        lax.while_loop(lambda v: v < 3, lambda v: v + 1, 0, max_steps=-1)


def test_numbers_of_steps() -> None:
    assert [checkpointed("sqrt", n) for n in (0, 1, 2, 4, 5, 100, 101)] == [1, 1, 2, 2, 3, 10, 11]
    assert checkpointed(None, 5) is None and checkpointed(7, 5) == 7
    assert [unrolled(u, 5) for u in (None, False, True, 1, 3, 9)] == [1, 1, 5, 1, 3, 5]
