"""Equations under the kernel that computes them."""

from __future__ import annotations

from typing import Any

import tfn
import tfn.numpy as tnp
from tests.lower.check_passes import SMALL
from tfn.inspect.show import View
from tfn.trace.jaxpr import param


def graph(f: Any, *shapes: tuple[int, ...]) -> Any:
    args = [tfn.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    return View(tfn.make_jaxpr(f)(*args), SMALL).graph


def test_each_kernel_is_defined_before_it_is_read() -> None:
    found = graph(lambda x, w: tnp.exp(x @ w) @ w + (x @ w), (4, 4), (4, 4))
    known = {u for u in found.names if not u.src}
    for number, nodes in found.kernels:
        for node in nodes:
            assert all(s in known or s.src == () for s in node.src), number
            known.add(node)


def test_every_value_has_a_name_of_its_own() -> None:
    found = graph(lambda x, w: tnp.exp(x @ w) @ w, (4, 4), (4, 4))
    named = [name for u, name in found.names.items() if u.shape]
    assert len(set(named)) == len(named)


def test_what_two_kernels_compute_stands_under_both() -> None:
    text = str(graph(lambda x: (tnp.sin(x).sum(axis=0), tnp.sin(x).sum(axis=1)), (4, 5)))
    assert text.count("= sin a") == 2 or "kernel 2" in text


def test_values_without_elements_are_named() -> None:
    text = str(graph(lambda x: x + 1, (0, 3)))
    assert "barrier" in text and text.endswith("in (d,) }")


def test_a_loop_has_names_of_its_own_and_keeps_those_of_what_it_reads() -> None:
    found = graph(lambda xs, w: tfn.lax.scan(lambda c, x: (c @ w, x @ w), w, xs), (3, 4, 4), (4, 4))
    ((inner,),) = found.inner.values()
    read, carried, piece = (inner.name(param(p)) for p in inner.function.arg.params)
    (w,) = (found.name(param(p)) for p in found.function.arg.params if len(p.shape) == 2)
    assert read == w
    outside = set(found.names.values())
    made = {name for u, name in inner.names.items() if name != read}
    assert {carried, piece} <= made and not made & outside
    assert [inner.number(number) for number, _ in inner.kernels] == ["0.0", "0.1"]


def test_the_two_functions_of_a_loop_count_their_kernels_together() -> None:
    found = graph(lambda x: tfn.lax.while_loop(lambda c: c.sum() < 9, lambda c: c @ c, x), (4, 4))
    ((condition, body),) = found.inner.values()
    assert [g.number(n) for g in (condition, body) for n, _ in g.kernels] == ["0.0", "0.1"]
    text = str(found)
    assert "  while 0:" in text and "kernel 0.0:" in text and "kernel 0.1:" in text


def test_a_small_loop_is_an_equation_of_its_kernel() -> None:
    found = graph(lambda x: tfn.lax.fori_loop(0, 9, lambda i, c: c * 2, x), (4,))
    assert not found.inner
    assert "  kernel 0:\n" in str(found) and "= scan[" in str(found)
