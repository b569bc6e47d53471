"""Equations under the kernel that computes them."""

from __future__ import annotations

from typing import Any

import tfn
import tfn.numpy as tnp
from tests.lower.check_passes import SMALL
from tfn.show import View


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
