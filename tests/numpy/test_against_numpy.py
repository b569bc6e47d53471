"""Each function that NumPy has too, held against it by one table; then the laws of transforms.

Values are drawn by hypothesis over dtypes and odd shapes and evaluated without a compiler;
compiled, eagerly and under jit, for fewer of them.  The laws need no compiler: derivatives are
those that finite differences give, twice, and vmap is a stack.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.numpy.rows import Draw, Row, draws, leaves, near, point, wide
from tests.numpy.table import ELSEWHERE, TABLE
from tfn.config import config

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of the reference

SMOOTH = {name: row for name, row in TABLE.items() if row.smooth}
MAPPED = {name: row for name, row in TABLE.items() if row.jit and row.shapes[0]}


def rows(table: dict[str, Row]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", in_turn(2, table))


@pytest.fixture
def oracle() -> Iterator[None]:
    """NumPy evaluates each operation: what is tested is what is traced, not how it is compiled."""
    before, config.device = config.device, "python"
    yield
    config.device = before


def find(module: Any, name: str) -> Any:
    """A function by its name, with its module where that is not `numpy` itself."""
    for part in name.split("."):
        module = getattr(module, part)
    return module


def check(name: str, row: Row, drawn: Draw) -> Any:
    """The result, once it is equal to NumPy's."""
    operands = drawn.operands if row.exact else [wide(x) for x in drawn.operands]
    want = drawn.call(row, row.want or find(np, name), *operands)
    got = drawn.call(row, find(tnp, name), *drawn.operands)
    near(row, got, want, drawn.operands)
    return got


@rows(TABLE)
def test_meaning_is_that_of_numpy(name: str, oracle: None) -> None:
    row = TABLE[name]

    @settings(max_examples=15)
    @given(draws(row))
    def same(drawn: Draw) -> None:
        check(name, row, drawn)

    same()


@pytest.mark.usefixtures("compiled")
@rows(TABLE)
def test_compiled_values_are_those_of_numpy(name: str) -> None:
    """Of the second example: the first one is the simplest there is."""
    row = TABLE[name]
    examples: list[Draw] = []

    @settings(max_examples=2, phases=[Phase.generate])
    @given(draws(row))
    def draw(drawn: Draw) -> None:
        examples.append(drawn)

    draw()
    drawn = examples[-1]
    got = check(name, row, drawn)
    if row.jit:
        compiled = tfn.jit(lambda *xs: drawn.call(row, find(tnp, name), *xs))
        result = compiled(*map(tnp.asarray, drawn.operands))
        near(row, result, got, drawn.operands)
        assert [x.dtype for x in leaves(result)] == [x.dtype for x in leaves(got)]


@rows(MAPPED)
def test_vmap_is_a_stack(name: str, oracle: None) -> None:
    row, function = MAPPED[name], find(tnp, name)
    points = [point(row, 10 * seed) for seed in range(3)]
    stacked = [np.stack(xs) for xs in zip(*[p.operands for p in points])]
    got = tfn.vmap(lambda *xs: points[0].call(row, function, *xs))(*stacked)
    each = [leaves(p.call(row, function, *p.operands)) for p in points]
    near(row, got, [np.stack(xs) for xs in zip(*each)], stacked)


def _weighed(row: Row, name: str, at: Draw) -> Any:
    """A number made of all results: each times a weight of its own."""

    def f(*operands: Any) -> Any:
        total = tnp.float64(0)
        result = at.call(row, find(tnp, name), *operands)
        for i, leaf in enumerate(tfn.tree.leaves(result)):
            weights = np.random.default_rng(i).uniform(0.5, 1.5, leaf.shape)
            if leaf.dtype.kind == "c":
                total = total + (tnp.imag(leaf) * weights).sum() * 0.5
            if leaf.dtype.kind in "cf":
                total = total + (tnp.real(leaf) * weights).sum()
        return total

    return f


@rows(SMOOTH)
def test_derivatives_are_those_of_finite_differences(name: str, oracle: None) -> None:
    row, step = SMOOTH[name], 1e-6
    at = point(row, zlib.crc32(name.encode()) % 1000)
    f = _weighed(row, name, at)
    moving = tuple(i for i, x in enumerate(at.operands) if x.dtype.kind == "f")
    random = np.random.default_rng(1)
    along = [random.standard_normal(x.shape) for x in at.operands]

    def moved(by: float) -> list[Any]:
        return [
            tnp.asarray(np.asarray(x + by * dx)) if i in moving else tnp.asarray(x)
            for i, (x, dx) in enumerate(zip(at.operands, along))
        ]

    slopes = tfn.grad(f, moving)
    got = sum(float((dx * along[i]).sum()) for i, dx in zip(moving, slopes(*moved(0))))
    want = float(f(*moved(step)) - f(*moved(-step))) / (2 * step)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)

    def only(*xs: Any) -> Any:
        whole = moved(0)
        for i, x in zip(moving, xs):
            whole[i] = x
        return slopes(*whole)

    start = tuple(moved(0)[i] for i in moving)
    _, bent = tfn.jvp(only, start, tuple(tnp.asarray(np.asarray(along[i])) for i in moving))
    for got_bent, up, down in zip(bent, slopes(*moved(step)), slopes(*moved(-step))):
        want_bent = (np.asarray(up) - np.asarray(down)) / (2 * step)
        np.testing.assert_allclose(np.asarray(got_bent), want_bent, rtol=1e-5, atol=1e-6)


def test_a_function_is_compared_here_or_elsewhere() -> None:
    assert not set(TABLE) & set(ELSEWHERE)
