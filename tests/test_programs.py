"""Programs that hypothesis writes, run in every way there is: all must agree with NumPy.

A program is Python source over `xp`, so that NumPy in float64 says what it means, and a failure
prints as something to paste.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tfn
import tfn.numpy as tnp
from tfn.config import config

SIZES = (1, 2, 3, 5, 7, 17)
LARGEST = 2_000
INPUTS = ("x", "y", "k", "m")
"""Two arrays of floats, one of integers from 0 to 4, one of truths."""


@dataclass(frozen=True)
class Program:
    """Source, and what it is called with."""

    source: str
    inputs: tuple[np.ndarray[Any, Any], ...]

    def __repr__(self) -> str:
        shapes = ", ".join(f"{n}: {v.dtype}{list(v.shape)}" for n, v in zip(INPUTS, self.inputs))
        return f"\n# {shapes}\n{self.source}"

    def function(self, xp: Any) -> Callable[..., Any]:
        """The program as a function of arrays of `xp`."""
        names: dict[str, Any] = {"xp": xp}
        exec(self.source, names)
        found: Callable[..., Any] = names["f"]
        return found

    def arrays(self) -> list[tfn.Array]:
        """The inputs on the default device."""
        return [tnp.asarray(v) for v in self.inputs]


class Writer:
    """A program as it is drawn: its lines, and the values NumPy gives them."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        shapes = st.lists(st.sampled_from(SIZES), max_size=3).map(tuple)
        random = np.random.default_rng(draw(st.integers(0, 99)))
        first, second = draw(shapes), draw(shapes)
        self.inputs = (
            random.standard_normal(first).astype(np.float32),
            random.standard_normal(second).astype(np.float32),
            random.integers(0, 5, draw(shapes)).astype(np.int32),
            random.integers(0, 2, first).astype(bool),
        )
        self.values: dict[str, Any] = {
            n: v.astype(np.float64) if v.dtype == np.float32 else v
            for n, v in zip(INPUTS, self.inputs)
        }
        self.lines: list[str] = []

    def one_of(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def name(self, least: int = 0, fits: Callable[[Any], bool] = lambda v: True) -> str:
        """A value of floats with so many axes, the later ones more often; x, if need be, wider."""
        fitting = [
            n for n, v in self.values.items() if v.dtype.kind == "f" and v.ndim >= least and fits(v)
        ]
        if fitting:
            return str(self.one_of(*fitting[-4:], *fitting))
        self.add(f"x.reshape({', '.join(['1'] * (least - 1) + ['-1'])})")
        return list(self.values)[-1]

    def axis(self, name: str) -> int:
        return int(self.draw(st.integers(-self.values[name].ndim, self.values[name].ndim - 1)))

    def broadcasts(self, name: str) -> str:
        """A value whose shape goes with that of another, at first itself."""
        shape = self.values[name].shape

        def fits(v: Any) -> bool:
            try:
                return prod(np.broadcast_shapes(v.shape, shape)) <= LARGEST
            except ValueError:
                return False

        return self.name(fits=fits)

    def add(self, expression: str) -> None:
        """One more line; what has grown large is made small again."""
        with np.errstate(all="ignore"):
            value = np.asarray(eval(expression, {"xp": np, **self.values}))
            if value.dtype.kind == "f" and not np.all(np.abs(value) < 30):
                expression = f"xp.tanh({expression})"
                value = np.tanh(value)
        if value.size <= LARGEST and value.ndim <= 4 and np.all(np.isfinite(value)):
            name = f"v{len(self.lines)}"
            self.lines.append(f"    {name} = {expression}")
            self.values[name] = value

    def step(self) -> None:
        """One op on what there is."""
        self.one_of(*STEPS)(self)


def elementwise(w: Writer) -> None:
    a = w.name()
    w.add(
        w.one_of(
            f"xp.tanh({a})",
            f"-{a}",
            f"xp.abs({a})",
            f"xp.exp(-xp.abs({a}))",
            f"xp.sin({a})",
            f"xp.sqrt(xp.abs({a}) + 1)",
            f"{a} * 0.5 + 1",
            f"{a} ** 2",
            f"xp.log1p({a} * {a})",
            f"xp.clip({a}, -1, 1)",
            f"1 / (1 + xp.exp({a}))",
            f"xp.square({a}) / 3",
            f"2 - {a}",
        )
    )


def binary(w: Writer) -> None:
    a = w.name()
    b = w.broadcasts(a)
    w.add(
        w.one_of(
            f"{a} + {b}",
            f"{a} - {b}",
            f"{a} * {b}",
            f"{a} / (1 + xp.abs({b}))",
            f"xp.maximum({a}, {b})",
            f"xp.minimum({a}, {b})",
            f"xp.where(x.sum() > 0, {a}, {b})",
            f"xp.hypot({a}, {b} + 2)",
            f"xp.arctan2({a}, xp.abs({b}) + 1)",
        )
    )


def where(w: Writer) -> None:
    a = w.broadcasts("x")
    w.add(w.one_of(f"xp.where(m, {a}, x)", f"xp.where(x > 0, {a}, -{a})", f"{a} * m"))


def reduction(w: Writer) -> None:
    a = w.name(1)
    axes = w.one_of("None", str(w.axis(a)), str(tuple(range(w.values[a].ndim))))
    f = w.one_of("sum", "mean", "max", "min", "var")
    small = " * 0.1" if f == "sum" else ""
    w.add(f"{a}.{f}(axis={axes}, keepdims={w.one_of(True, False)}){small}")


def normalized(w: Writer) -> None:
    a = w.name(1)
    i = w.axis(a)
    w.add(
        w.one_of(
            f"xp.exp({a} - {a}.max({i}, keepdims=True)) / "
            f"xp.exp({a} - {a}.max({i}, keepdims=True)).sum({i}, keepdims=True)",
            f"({a} - {a}.mean({i}, keepdims=True)) / xp.sqrt({a}.var({i}, keepdims=True) + 1)",
            f"{a} / xp.sqrt((({a} ** 2).mean({i}, keepdims=True) + 1))",
            f"xp.cumsum({a}, axis={i}) * 0.1",
            f"xp.diff(xp.concatenate([{a}, {a}], {i}), axis={i})",
        )
    )


def product(w: Writer) -> None:
    a = w.name(1)
    n = w.values[a].shape[-1]
    b = w.name(1, lambda v: v.shape[-1] == n)
    w.add(
        w.one_of(
            f"xp.tensordot({a}, {b}, (-1, -1)) * {1 / n!r}",
            f"xp.einsum('...i,...i->...', {a}, {a}) * {1 / n!r}",
            f"{a}.reshape(-1, {n}) @ {b}.reshape(-1, {n}).T * {1 / n!r}",
            f"xp.dot({a}, {b}.reshape({n}, -1)) * {1 / n!r}",
            f"xp.outer({a}[..., 0], {b}[..., 0])",
        )
    )


def movement(w: Writer) -> None:
    a = w.name(1)
    i = w.axis(a)
    n = w.values[a].ndim
    order = w.draw(st.permutations(range(n)))
    w.add(
        w.one_of(
            f"{a}.transpose({', '.join(map(str, order))})",
            f"{a}.ravel()",
            f"xp.flip({a}, {i})",
            f"xp.expand_dims({a}, {i})",
            f"xp.roll({a}, 2, {i})",
            f"xp.concatenate([{a}, {a}], {i})",
            f"xp.stack([{a}, {a} * 2], {i})",
            f"xp.pad({a}, {n * [(1, 2)]})",
            f"xp.repeat({a}, 2, {i})",
            f"xp.swapaxes({a}, 0, {i})",
            f"xp.tile({a}, 2)",
            f"xp.pad({a}, 1, mode='edge')",
            f"{a}.reshape(-1, {w.values[a].shape[-1]})",
            f"{a}.T",
            f"xp.broadcast_to({a}, {(2, *w.values[a].shape)})",
        )
    )


def indexing(w: Writer) -> None:
    a = w.name(1)
    i = w.axis(a)
    w.add(
        w.one_of(
            f"{a}[::-1]",
            f"{a}[1:]" if w.values[a].shape[0] > 1 else f"{a}[:1]",
            f"{a}[..., ::2]",
            f"{a}[0]",
            f"{a}[..., -1]",
            f"{a}[:, None]",
            f"{a}[k % {w.values[a].shape[0]}]",
            f"xp.take({a}, k % {w.values[a].shape[i]}, axis={i})",
            f"{a}[..., None]",
            f"xp.take_along_axis({a}, xp.argsort({a} * 0, axis={i}), axis={i})",
        )
    )


def cast(w: Writer) -> None:
    a = w.name()
    w.add(
        w.one_of(
            "k.astype('float32') * 0.5",
            "m.astype('float32')",
            f"{a}.astype('float64')",
            f"{a}.astype('float64').sum().astype('float32') * 0.1",
            "(k * 3 // 2 - 1) * 0.25",
            "(x > 0.5) * 1.0",
            "((k & 1) ^ 1).sum() * 0.1",
            "(k % 3 == 1).sum() * 0.1",
            "k.sum() * 0.1",
        )
    )


STEPS = (
    elementwise,
    elementwise,
    binary,
    binary,
    where,
    reduction,
    reduction,
    normalized,
    product,
    movement,
    movement,
    indexing,
    cast,
)


@st.composite
def programs(draw: st.DrawFn, most: int = 8) -> Program:
    """A function of x, y, k and m that gives its last values."""
    w = Writer(draw)
    for _ in range(draw(st.integers(1, most))):
        w.step()
    made = [n for n in w.values if n not in INPUTS] or ["x"]
    chosen = dict.fromkeys([made[-1], *draw(st.lists(st.sampled_from(made), max_size=1))])
    lines = [f"def f({', '.join(INPUTS)}):", *w.lines, f"    return ({', '.join(chosen)},)"]
    return Program("\n".join(lines), w.inputs)


@contextmanager
def on(name: str) -> Iterator[None]:
    """Another default device."""
    before = config.device
    config.device = name
    try:
        yield
    finally:
        config.device = before


def close(got: Any, want: Any, what: str) -> None:
    assert len(got) == len(want)
    for g, w in zip(got, want):
        g, w = np.asarray(g), np.asarray(w)
        assert g.shape == w.shape, f"{what}: {g.shape} {w.shape}"
        np.testing.assert_allclose(
            g.astype(np.float64), w.astype(np.float64), 1e-3, 2e-4, err_msg=what
        )


@given(programs())
@settings(max_examples=60)
def test_every_way_to_run_a_program_agrees(program: Program) -> None:
    with np.errstate(all="ignore"):
        want = program.function(np)(
            *(v.astype(np.float64) if v.dtype == np.float32 else v for v in program.inputs)
        )
    f = program.function(tnp)
    with on("cpu"):
        args = program.arrays()
        close(f(*args), want, "eager")
        close(tfn.jit(f)(*args), want, "jit")
        batched = tfn.vmap(f)(*(x[None] for x in args))
        close([y[0] for y in batched], want, "vmap")
    with on("python"):
        close(tfn.jit(program.function(tnp))(*program.arrays()), want, "oracle")


@given(programs(most=6))
@settings(max_examples=40)
def test_every_way_to_a_gradient_agrees(program: Program) -> None:
    def gradients() -> Any:
        f = program.function(tnp)

        def loss(x: Any, y: Any, k: Any, m: Any) -> Any:
            return sum((v * 0.5).sum().astype("float32") for v in f(x, y, k, m))

        return tfn.grad(loss, argnums=(0, 1))

    with on("python"):
        want = [np.array(g) for g in tfn.jit(gradients())(*program.arrays())]
    with on("cpu"):
        args, gradient = program.arrays(), gradients()
        close(gradient(*args), want, "grad")
        close(tfn.jit(gradient)(*args), want, "jit of grad")
        batched = tfn.vmap(gradient)(*(x[None] for x in args))
        close([g[0] for g in batched], want, "vmap of grad")
