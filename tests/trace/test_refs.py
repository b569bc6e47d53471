"""References: what functions read and write is what Python would, under every transform."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.errors import ArgumentError, DTypeError, NotAvailableError, UnexpectedTracerError
from tfn.trace.refs import Ref, new_ref


def values(ref: Ref) -> Any:
    return np.asarray(ref[...]).tolist()


def test_elements_are_read_and_written() -> None:
    ref = new_ref(tnp.zeros((2, 2)))
    ref[0, 1] = 3
    ref[1] = tnp.array([4.0, 5.0])
    assert values(ref) == [[0, 3], [4, 5]] and float(ref[1, 0]) == 4
    ref[...] = 1.0
    assert values(ref) == [[1, 1], [1, 1]]
    ref.addupdate(tnp.ones(3), (tnp.array([0, 0, 1]), 0))
    assert values(ref) == [[3, 1], [2, 1]]
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)) == ((2, 2), np.float32, 2, 4, 2)
    assert repr(new_ref(1)) == "Ref(Array(1, dtype=int32))"


def test_a_view_writes_in_place() -> None:
    ref = new_ref(tnp.zeros((2, 3)))
    row = ref.at[1]
    row[2] = 7.0
    row.at[:2].set(tnp.array([1.0, 2.0]))
    assert values(ref) == [[0, 0, 0], [1, 2, 7]] and row.shape == (3,)
    row.set(tnp.zeros(3))
    assert values(ref) == [[0, 0, 0], [0, 0, 0]] and float(row.get().sum()) == 0


def test_a_value_read_before_stays() -> None:
    ref = new_ref(1.0)
    before = ref[...]
    ref[...] = 2.0
    assert float(before) == 1.0


@pytest.mark.parametrize("wrap", [lambda f: f, tfn.jit, lambda f: tfn.jit(tfn.jit(f))])
def test_a_function_counts_its_calls(wrap: Callable[..., Any]) -> None:
    count = new_ref(0)

    def f(x: Any) -> Any:
        count[...] += 1
        return x * 2

    g = wrap(f)
    assert [float(g(x)) for x in (1.0, 2.0, 3.0)] == [2, 4, 6]
    assert int(count[...]) == 3
    count[...] = 10  # what a compiled function reads is not fixed when it is traced
    g(1.0)
    assert int(count[...]) == 11


def test_a_reference_may_be_an_argument() -> None:
    first, second = new_ref(1.0), new_ref(10.0)

    @tfn.jit
    def swap(a: Ref, b: Ref, x: Any) -> Any:
        a[...], b[...] = b[...] + x, a[...]
        return a

    assert swap(first, second, 1.0) is first
    assert (float(first[...]), float(second[...])) == (11, 1)
    swap(second, first, 0.0)
    assert (float(first[...]), float(second[...])) == (1, 11)


def test_a_function_returns_a_reference_that_it_made() -> None:
    made = tfn.jit(lambda x: {"ref": new_ref(x)})(2.0)["ref"]
    made[...] += 1.0
    assert float(made[...]) == 3.0


@pytest.mark.parametrize("jit", [False, True])
def test_loops_carry_and_branches_pass_on(jit: bool) -> None:
    total, steps = new_ref(0.0), new_ref(0)

    def step(c: Any, x: Any) -> Any:
        total[...] += x
        lax.cond(x > 1, lambda: steps.set(steps[...] + 1), lambda: None)
        return c + total[...], total[...]

    def run(xs: Any) -> Any:
        last, sums = lax.scan(step, 0.0, xs)
        lax.while_loop(
            lambda i: total[...] < 20, lambda i: (total.set(total[...] * 2), i + 1)[1], 0
        )
        lax.fori_loop(0, 3, lambda i, c: (steps.set(steps[...] + i), c)[1], None)
        return last, sums

    last, sums = (tfn.jit(run) if jit else run)(tnp.array([1.0, 2.0, 3.0]))
    assert float(last) == 10 and sums.tolist() == [1, 3, 6]
    assert float(total[...]) == 24 and int(steps[...]) == 5


def test_an_effect_and_references_keep_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    ref = new_ref(0)

    @tfn.jit
    def f() -> None:
        def step(c: None, x: Any) -> Any:
            ref[...] += x
            tfn.debug.print("{}", ref[...])
            return c, None

        lax.scan(step, None, tnp.arange(3))

    f()
    tfn.effects_barrier()
    assert capsys.readouterr().out == "0\n1\n3\n"


def test_derivatives_go_through_references_that_the_function_makes() -> None:
    def f(x: Any) -> Any:
        ref = new_ref(tnp.ones(()))

        def step(c: None, y: Any) -> Any:
            ref[...] = ref[...] * x + y
            return c, None

        lax.scan(step, None, tnp.arange(3.0))
        return ref[...]

    # ((x + 0) x + 1) x + 2
    for g in (f, tfn.jit(f), tfn.checkpoint(f)):
        assert float(tfn.grad(g)(2.0)) == 3 * 4 + 1
        assert float(tfn.jvp(g, (2.0,), (1.0,))[1]) == 13
    np.testing.assert_allclose(tfn.vmap(tfn.grad(f))(tnp.array([1.0, 2.0])), [4, 13])


@pytest.mark.parametrize(
    "run",
    [
        lambda f: tfn.grad(f)(3.0),
        lambda f: tfn.jit(tfn.grad(f))(3.0),
        lambda f: tfn.vjp(f, 3.0),
        lambda f: tfn.jvp(f, (3.0,), (1.0,)),
        lambda f: tfn.grad(tfn.checkpoint(f))(3.0),
        lambda f: tfn.hessian(f)(3.0),
    ],
)
def test_a_differentiated_function_writes_once(run: Callable[..., Any]) -> None:
    seen = new_ref(0.0)

    def f(x: Any) -> Any:
        seen[...] = seen[...] + x
        return x * x

    run(f)
    assert float(seen[...]) == 3.0


def test_each_lane_has_its_own() -> None:
    refs = new_ref(tnp.arange(3.0))

    def f(ref: Ref, x: Any) -> Any:
        ref[...] *= x
        return ref[...] + 1

    assert tfn.vmap(f)(refs, tnp.array([1.0, 2.0, 3.0])).tolist() == [1, 3, 7]
    assert values(refs) == [0, 2, 6]
    columns = new_ref(tnp.ones((2, 3)))
    tfn.vmap(lambda r, x: r.set(r[...] * x), in_axes=(1, 0))(columns, tnp.arange(3.0))
    assert values(columns) == [[0, 1, 2], [0, 1, 2]]
    shared = new_ref(1.0)
    scaled = tfn.vmap(lambda r, x: r[...] * x, in_axes=(None, 0))(shared, tnp.ones(2))
    assert scaled.tolist() == [1, 1]
    with pytest.raises(ArgumentError, match=r"lanes .* write different values"):
        tfn.vmap(lambda x: shared.set(x))(tnp.ones(2))


def test_each_step_has_its_slice() -> None:
    rows = new_ref(tnp.arange(6.0).reshape(3, 2))

    def step(c: Any, row: Ref) -> Any:
        row[0] = c
        return c + row[1], None

    assert float(lax.scan(step, 0.0, rows)[0]) == 9
    assert values(rows) == [[0, 1], [1, 3], [4, 5]]


def test_keys_are_state() -> None:
    state = new_ref(tfn.random.key(0))

    def draw() -> Any:
        state[...], key = tfn.random.split(state[...])
        return tfn.random.normal(key)

    drawn = [float(draw()), float(tfn.jit(draw)()), float(tfn.jit(draw)())]
    key, expected = tfn.random.key(0), []
    for _ in range(3):
        key, own = tfn.random.split(key)
        expected.append(float(tfn.random.normal(own)))
    assert drawn == expected


def test_types_stay() -> None:
    ref = new_ref(tnp.zeros(2, "int32"))
    with pytest.raises(DTypeError, match="a reference to int32 cannot hold float32"):
        ref[...] = tnp.ones(2)
    with pytest.raises(DTypeError):
        ref[0] = 1.5
    ref[0] = True
    assert values(ref) == [1, 0]


def test_a_reference_of_a_trace_ends_with_it() -> None:
    leaked: list[Ref] = []
    tfn.jit(lambda x: leaked.append(new_ref(x)))(1.0)
    with pytest.raises(UnexpectedTracerError, match="used after <lambda>, which made it"):
        leaked[0][...]


def test_rules_do_not_write_outside() -> None:
    ref = new_ref(0.0)
    f = tfn.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (ref.set(ct), (ct,))[1])
    with pytest.raises(NotAvailableError, match="writes to a reference from outside"):
        tfn.grad(lambda x: f(x))(1.0)


def test_nothing_is_kept_alive() -> None:
    ref = new_ref(0)

    def use(ref: Ref) -> None:
        tfn.jit(lambda: ref.set(ref[...] + 1))()

    use(ref)
    alive = weakref.ref(ref)
    del ref
    gc.collect()
    assert alive() is None
