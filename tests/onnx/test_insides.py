"""Functions as saving sees them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn import nn
from tfn import numpy as tnp
from tfn.onnx.insides import Op, UOp, anyhow, lowered, simpler, walk


def ops(function: Any, *args: Any) -> set[Op]:
    return {u.op for u in walk(lowered(anyhow(function)(*args)).src)}


def test_rules_of_derivatives_and_complex_values_are_gone() -> None:
    x = np.ones(4, np.float32)
    assert Op.CUSTOM not in ops(nn.softmax, x)
    assert ops(lambda x: tnp.abs(tnp.fft.rfft(x)), x).isdisjoint({Op.FFT, Op.COMPLEX, Op.REAL})


def test_elementary_functions_by_basic_operations() -> None:
    closed = lowered(anyhow(tnp.cbrt)(np.ones(4, np.float32)))
    node: UOp = closed.src[0]
    assert node.op is Op.CBRT and Op.CBRT not in {u.op for u in walk([simpler(node)])}
