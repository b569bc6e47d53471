"""Instruction printer: names are defined before their uses, loops are indented and closed."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tfn
import tfn.numpy as tnp
from tests.lower.check_passes import HOST, SMALL
from tests.lower.graphs import p
from tfn.inspect.show import View
from tfn.lower.codegen.builder import Builder
from tfn.lower.report.print.instructions import instructions

PROGRAMS = {
    "sum": (lambda x: x.sum(axis=1), (5, 37)),
    "product": (lambda x, w: x @ w, (9, 13), (13, 21)),
    "padded": (lambda x: tnp.pad(x, ((1, 2), (0, 3))), (4, 5)),
    "gathered": (lambda x: x[tnp.array([2, 0])] * 2, (4, 5)),
}


@pytest.mark.parametrize("target", [HOST, SMALL], ids=["wide", "narrow"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_names_are_defined_before_their_uses(program: str, target: tfn.Target) -> None:
    f, *shapes = PROGRAMS[program]
    view = _view(f, shapes, target)
    for stage in view.stages:
        defined: set[str] = set()
        for line in view.linear(stage.body, [f"b_{i}" for i in range(9)]).splitlines():
            line = re.sub(r":\w+", "", line, count=1)  # the type
            definition = re.match(r" *(?:loop )?([isv]\d+) ", line)
            used = set(re.findall(r"\b[isv]\d+\b", line[definition.end() if definition else 0 :]))
            assert used <= defined, line
            if definition:
                defined.add(definition[1])


def test_a_sum_in_full() -> None:
    view = _view(lambda x: x.sum(axis=1), [(4, 8)], SMALL)
    text = view.linear(view.stages[0].body, ["b", "a"])
    assert re.search(r"v\d+:f32 = add across v\d+", text)
    assert re.search(r"store b\[i1\] = v\d+", text)


def test_prefetches() -> None:
    code = Builder()
    with code.loop(0, 3) as i:
        code.prefetch(p(0, 9), i * 2)
    text = instructions(tuple(code.scopes.root.items), ["a"])
    assert re.search(r"^  prefetch a\[v\d+\]$", text, re.MULTILINE)


def _view(f: Any, shapes: Any, target: tfn.Target) -> View:
    args = [tfn.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    return View(tfn.make_jaxpr(f)(*args), target)


def test_recurrences_with_a_length_and_with_a_condition() -> None:
    def counted(x: Any) -> Any:
        return tfn.lax.fori_loop(0, 9, lambda i, c: c * 2, x)

    def conditional(x: Any) -> Any:
        return tfn.lax.while_loop(lambda c: c < 9, lambda c: c * 2, x)

    for f, shape, head in ((counted, (4,), "0..9:"), (conditional, (), "0..:")):
        view = _view(f, [shape], SMALL)
        assert len(view.stages) == 1
        text = view.linear(view.stages[0].body, ["b", "a", "c"])
        assert head in text and ("leave unless" in text) == (f is conditional)
