"""Control flow in the forms that JAX takes beside those of tfn.lax."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.compat.control_flow import cond, fori_loop
from tfn.errors import ArgumentError


@pytest.mark.parametrize("wrap", [lambda f: f, tfn.jit])
def test_branches_with_operands_of_their_own(wrap):
    run = wrap(lambda p, x, y: cond(p, x, lambda x: 2 * x, (x, y), lambda both: both[0] + both[1]))
    assert [float(run(p, 1.0, 5.0)) for p in (True, False)] == [2.0, 6.0]
    usual = wrap(lambda p, x: cond(p, lambda x: 2 * x, lambda x: -x, x))
    assert [float(usual(p, 1.0)) for p in (True, False)] == [2.0, -1.0]
    assert float(cond(True, tnp.sin, tnp.cos, operand=0.0)) == 0.0
    with pytest.raises(ArgumentError, match="functions as branches"):
        cond(True, 1.0, 2.0)


def test_bounds_of_loops_may_be_floating():
    run = tfn.jit(lambda low, high: fori_loop(low, high, lambda i, x: x + i, tnp.zeros(())))
    assert float(run(0, np.float32(3.5))) == 6.0 and float(run(0.5, 3.0)) == 4.5
    assert float(run(1, 4)) == 6.0
    grow = tfn.grad(lambda x: fori_loop(0, 3, lambda i, y: y * x, 1.0))
    assert float(grow(2.0)) == 12.0
