"""`disable_jit`: the results of jitted functions and loops, computed by Python."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.transforms.disable import DISABLED


def test_jitted_functions_run_as_python_within_the_block():
    kinds = []
    f = tfn.jit(lambda x: kinds.append(type(x)) or x)
    f(1.0)
    with tfn.disable_jit():
        f(1.0)
        with tfn.disable_jit(False):
            f(2)
    assert kinds == [tfn.Array, float, tfn.Array] and not DISABLED[0]


def test_it_ends_with_an_error():
    with pytest.raises(ZeroDivisionError), tfn.disable_jit():
        tfn.jit(lambda x: x / 0)(1)
    assert not DISABLED[0]


LOOPS = {
    "scan": lambda x: lax.scan(lambda c, x: (c * x, {"y": (c, x + 1)}), tnp.float32(2), x),
    "reverse": lambda x: lax.scan(lambda c, x: (c * x, c), 2.0, x, reverse=True),
    "length": lambda x: lax.scan(lambda c, _: (c + 1, None), x, None, length=3),
    "empty": lambda x: lax.scan(lambda c, x: (c, x), x, x[:0]),
    "while": lambda x: lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 2, x),
    "bounded": lambda x: lax.while_loop(lambda c: c[0] < 99, lambda c: c + 1, x, max_steps=4),
    "for": lambda x: lax.fori_loop(1, 4, lambda i, c: c + i, x),
    "map": lambda x: lax.map(lambda c: c * c, x),
    "switch": lambda x: lax.switch(1, [lambda c: c, lambda c: -c], x),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_have_the_same_results(name):
    x = tnp.arange(1.0, 5.0)
    want = tfn.tree.leaves(LOOPS[name](x))
    with tfn.disable_jit():
        got = tfn.tree.leaves(LOOPS[name](x))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)
        assert a.shape == b.shape and a.dtype == b.dtype


def test_values_in_a_loop_are_known():
    seen = []
    with tfn.disable_jit():
        lax.scan(lambda c, x: (seen.append(float(x)), (c, c))[1], 0.0, tnp.arange(3.0))
        assert tfn.grad(lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, 1.0))(2.0) == 12
    assert seen == [0, 1, 2]
