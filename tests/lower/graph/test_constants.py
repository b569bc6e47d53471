"""Tables: which values leave a function, what is left, and that both together mean the same."""

from __future__ import annotations

import numpy as np

import tfn
from tests.lower.graphs import jaxpr, p, run_oracle
from tfn import lax
from tfn import numpy as tnp
from tfn.dtypes import FLOAT32
from tfn.lower.graph.constants import MAX_TABLE_BYTES, hoist
from tfn.trace import build, oracle
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk


def sines(n: int) -> UOp:
    return build.unary(Op.SIN, build.iota((n,), 0, FLOAT32) * 0.1)


def test_costly_values_without_arguments_become_parameters() -> None:
    x = p(0, 4, 500)
    y = x * build.broadcast_to(sines(500), x.shape)
    function = jaxpr([y]).function
    reduced, tables = hoist(function)
    assert tables is not None and [u.shape for u in tables.src] == [(500,)]
    assert [q.shape for q in reduced.arg.params] == [(4, 500), (500,)]
    assert not any(u.op is Op.SIN for u in walk([reduced]))
    data = np.ones((4, 500), np.float32)
    (table,) = oracle.evaluate(tables.src, {})
    (got,) = run_oracle(reduced.src, [data, table])
    (want,) = run_oracle(function.src, [data])
    np.testing.assert_array_equal(got, want)


def test_products_of_tables_are_tables() -> None:
    x, s = p(0, 64), sines(64)
    matrix = build.dot(build.reshape(s, (64, 1)), build.reshape(s, (1, 64)), ((1,), (0,)))
    whole = build.dot(matrix, matrix, ((1,), (0,)))
    _, tables = hoist(jaxpr([build.dot(whole, x, ((1,), (0,)))]).function)
    assert tables is not None and tables.src == (whole,)


def test_what_is_cheap_or_large_or_all_there_is_stays() -> None:
    x = p(0, 300, 300)
    mask = build.iota(x.shape, 0, FLOAT32) < build.iota(x.shape, 1, FLOAT32)
    masked = build.where(mask, x, build.zeros(x.shape, FLOAT32))
    short = p(0, 8) * sines(8)
    large = p(0, MAX_TABLE_BYTES) * sines(MAX_TABLE_BYTES)
    for outputs in ([masked], [short], [large], [sines(500)]):
        function = jaxpr(outputs).function
        assert hoist(function) == (function, None)


def test_a_table_beside_a_loop() -> None:
    """The body of a loop is a function of its own, and stays as it is."""

    def f(x: tfn.Array) -> tfn.Array:
        return lax.map(tnp.exp, x * tnp.sin(tnp.arange(500.0)))

    x = np.ones((3, 500), np.float32)
    want = np.exp(np.sin(np.arange(500.0)))
    np.testing.assert_allclose(tfn.jit(f)(x)[2], want, rtol=1e-5)
