"""Elements added at both ends of axes, against NumPy."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import close, sample
from tfn.errors import ArgumentError

X = sample("float32", (2, 3, 5))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("width", [0, 2, (1, 3), ((0, 1), (2, 0), (1, 1))])
def test_pad(mode, width):
    close(tnp.pad(X, width, mode), np.pad(X, width, mode))


def test_pad_values_and_errors():
    close(tnp.pad(X, 1, constant_values=-7), np.pad(X, 1, constant_values=-7))
    close(tnp.pad(np.arange(3), (2, 0)), np.pad(np.arange(3), (2, 0)))
    with pytest.raises(ArgumentError, match="pad knows no mode"):
        tnp.pad(X, 1, "middle")
    with pytest.raises(ArgumentError, match="not negative"):
        tnp.pad(X, -1)
    with pytest.raises(ArgumentError, match="a pair for each axis"):
        tnp.pad(X, ((1, 2), (3, 4)))


@pytest.mark.parametrize("mode", ["maximum", "minimum", "mean", "median", "linear_ramp", "edge"])
@pytest.mark.parametrize("name", ["float64", "int32"])
def test_modes_that_read_the_axis(mode, name):
    x = sample(name, (4, 5), 1, special=False)
    for width in (2, ((0, 1), (3, 2))):
        got, want = tnp.pad(x, width, mode), np.pad(x, width, mode)
        close(got, want, 16)
        close(
            tfn.jit(lambda x: tnp.pad(x, ((1, 1), (0, 2)), mode))(x),
            np.pad(x, ((1, 1), (0, 2)), mode),
            16,
        )
        if mode in ("maximum", "mean"):
            options = {"stat_length": ((1, 2), (3, 9))}
            close(tnp.pad(x, width, mode, **options), np.pad(x, width, mode, **options), 16)


def test_values_for_each_end():
    values, x = ((1, 2), (3, 4), (5, 6)), sample("float32", (2, 3), 2, special=False)
    close(tnp.pad(X, 2, constant_values=values), np.pad(X, 2, constant_values=values))
    close(
        tnp.pad(x, 3, "linear_ramp", end_values=(5, -4)),
        np.pad(x, 3, "linear_ramp", end_values=(5, -4)),
        16,
    )
    assert tnp.pad(X, 1, "empty").shape == (4, 5, 7)
