"""Rows of `tfn.nn.functions`, compared with recorded JAX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.numpy.rows import Row
from tests.options.calls import Odd
from tests.options.keywords import AXIS, last, mask, none

MATRIX = [((3, 4),), ((2, 3, 5),)]


def row(shapes: Sequence[Any] = MATRIX, *args: Any, **rest: Any) -> Row:
    """Operands of a function, with arguments that follow them."""
    how = {"ulps": 64, "spread": True, "kinds": ["float32"], "within": (-2, 2), **rest}
    return Row(how.pop("kinds"), shapes, [args], **how)


def odd(row: Row, **values: Any) -> Odd:
    """A row with the odd values of its keywords."""
    return Odd(row, {}, values)


# fmt: off
MASKED = {"axis": [*AXIS, (0, 1), None], "where": [mask, last, none]}
NN = {
    **{name: odd(row(), **MASKED) for name in ("softmax", "log_softmax",
        "logmeanexp")},
    "standardize": odd(row(ulps=2**14), **{**MASKED, "where": [mask, last]}, mean=[0., None],
        variance=[1., None], epsilon=[.5, 0.]),
    "logsumexp": odd(row(), **MASKED, b=[2., -1., lambda x: x], return_sign=[True, False]),
    "celu": odd(row(), alpha=[.5, 2.]), "elu": odd(row(), alpha=[.5, 2., 0.]),
    "gelu": odd(row(), approximate=[True, False]), "glu": odd(row([((4, 6),)]), axis=[0, -1, 7]),
    "leaky_relu": odd(row(), negative_slope=[.5, 0., -1.]), "squareplus": odd(row(), b=[1., 0.]),
    "one_hot": odd(row([((3,),), ((2, 2),)], 4, kinds=["int32"], within=(-1, 5)), num_classes=[0, 1,
        3], axis=[0, -1, 1, 7], dtype=["float32", "int32", "bool"]),
}
# fmt: on
