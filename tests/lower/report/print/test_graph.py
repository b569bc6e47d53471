"""Graph printer: equations under the kernels that compute them."""

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
    printed = graph(lambda x, w: tnp.exp(x @ w) @ w + (x @ w), (4, 4), (4, 4))
    defined = {u for u in printed.names if not u.src}
    for number, nodes in printed.kernels:
        for node in nodes:
            assert all(s in defined or s.src == () for s in node.src), number
            defined.add(node)


def test_names_are_unique() -> None:
    printed = graph(lambda x, w: tnp.exp(x @ w) @ w, (4, 4), (4, 4))
    names = [name for u, name in printed.names.items() if u.shape]
    assert len(set(names)) == len(names)


def test_recomputed_equations_are_under_both_kernels() -> None:
    text = str(graph(lambda x: (tnp.sin(x).sum(axis=0), tnp.sin(x).sum(axis=1)), (4, 5)))
    assert text.count("= sin a") == 2 or "kernel 2" in text


def test_values_without_elements_are_named() -> None:
    text = str(graph(lambda x: x + 1, (0, 3)))
    assert "barrier" in text and text.endswith("in (d,) }")


def test_loops_keep_the_names_of_values_they_read() -> None:
    printed = graph(
        lambda xs, w: tfn.lax.scan(lambda c, x: (c @ w, x @ w), w, xs), (3, 4, 4), (4, 4)
    )
    ((inner,),) = printed.inner.values()
    read, carried, piece = (inner.name(param(p)) for p in inner.function.arg.params)
    (w,) = (printed.name(param(p)) for p in printed.function.arg.params if len(p.shape) == 2)
    assert read == w
    outside = set(printed.names.values())
    inside = {name for u, name in inner.names.items() if name != read}
    assert {carried, piece} <= inside and not inside & outside
    assert [inner.number(number) for number, _ in inner.kernels] == ["0.0", "0.1"]


def test_kernels_of_a_while_loop_are_numbered_together() -> None:
    printed = graph(lambda x: tfn.lax.while_loop(lambda c: c.sum() < 9, lambda c: c @ c, x), (4, 4))
    ((condition, body),) = printed.inner.values()
    assert [g.number(n) for g in (condition, body) for n, _ in g.kernels] == ["0.0", "0.1"]
    text = str(printed)
    assert "  while 0:" in text and "kernel 0.0:" in text and "kernel 0.1:" in text


def test_fused_loops_are_equations() -> None:
    printed = graph(lambda x: tfn.lax.fori_loop(0, 9, lambda i, c: c * 2, x), (4,))
    assert not printed.inner
    assert "  kernel 0:\n" in str(printed) and "= scan[" in str(printed)
