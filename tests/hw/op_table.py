"""All ops with their derivatives and batches, as programs of several cases each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests import covering
from tests.lower.graphs import run_on
from tests.transforms.cases import CASES, Case, leaf, run
from tests.transforms.test_batch import SIZE, lanes
from tfn.hw.device import Device
from tfn.trace.argument import Param
from tfn.trace.inline import runnable
from tfn.trace.jaxpr import Jaxpr, function, param
from tfn.trace.op import MANUAL, UNARY, Op
from tfn.trace.uop import UOp, substitute
from tfn.transforms.batch import batch
from tfn.transforms.jvp import push
from tfn.transforms.transpose import pull

CASES_PER_PROGRAM = 16
"""The kernels of a program are built at once: to start a build takes longer than a kernel."""

STARTS = range(0, len(CASES), CASES_PER_PROGRAM)
STRUCTURE = MANUAL | {Op.TUPLE, Op.GET}
"""Ops without a value of their own, and those over a mesh."""


def everything(case: Case) -> tuple[list[UOp], dict[UOp, Any]]:
    """The value of a case, its tangent, its cotangents, and the values of a batch.

    Complex numbers are pairs of reals before a device is asked, and the derivatives of their
    functions the longest kernels: of these, the values are enough.
    """
    leaves, values = case.leaves()
    y = case.graph(*leaves)
    outputs = [y]
    if case.name.startswith("complex") and case.op in UNARY and not covering.exhaustive:
        return outputs, values
    dxs = [leaf(x) for x in case.differentiated]
    rng = np.random.default_rng(5)
    values |= {dx: rng.normal(size=dx.shape).astype(dx.dtype) for dx in dxs}
    (dy,) = push([y], dict(zip(leaves, dxs)))
    if dy is not None:
        ct = leaf(np.ones(y.shape, y.dtype))
        values[ct] = np.ones(y.shape, y.dtype)
        outputs += [dy, *(c for c in pull([dy], dxs, [ct]) if c is not None)]
    many = {u: leaf(lanes(values[u])) for u in leaves}
    values |= {many[u]: lanes(values[u]) for u in leaves}
    return [*outputs, batch([y], many, SIZE)[0].full(SIZE)], values


def cases(
    start: int, without: frozenset[Op] = frozenset()
) -> tuple[list[str], list[UOp], dict[UOp, Any]]:
    """Some cases: the name of each output, the outputs, and the values of their leaves."""
    outputs: list[UOp] = []
    names: list[str] = []
    values: dict[UOp, Any] = {}
    for case in CASES[start : start + CASES_PER_PROGRAM]:
        if case.op not in STRUCTURE | without:
            more, own = everything(case)
            outputs, values = [*outputs, *more], values | own
            names += [case.name] * len(more)
    return names, outputs, values


def closed(outputs: Sequence[UOp], values: dict[UOp, Any]) -> tuple[Jaxpr, list[object]]:
    """Graphs over leaves as a function of these, with its functions of the host."""
    params = {u: Param(i, u.shape, u.dtype) for i, u in enumerate(values)}
    body = substitute(outputs, {u: param(p) for u, p in params.items()})
    whole, functions = runnable(function(body, tuple(params.values())))
    return Jaxpr(whole), list(functions)


def assert_cases_hold(device: Device, start: int) -> None:
    """Run some cases on a device, and compare them with the oracle."""
    names, outputs, values = cases(start)
    expected = run(outputs, values)
    jaxpr, functions = closed(outputs, values)
    got = run_on(device, jaxpr, [np.asarray(x) for x in values.values()], functions)
    for name, x, y in zip(names, got, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-9, err_msg=name)
