"""x.at[index]: each way of changing elements, and of reading them with a mode."""

import numpy as np
import pytest

import tfn.numpy as tnp
from tests.numpy.values import close

X = tnp.array([4.0, 2.0, 8.0])


@pytest.mark.parametrize(
    "how, want",
    [
        ("set", [4, 3, 8]),
        ("add", [4, 5, 8]),
        ("subtract", [4, -1, 8]),
        ("multiply", [4, 6, 8]),
        ("mul", [4, 6, 8]),
        ("divide", [4, 2 / 3, 8]),
        ("power", [4, 8, 8]),
        ("min", [4, 2, 8]),
        ("max", [4, 3, 8]),
    ],
)
def test_updates(how, want):
    close(getattr(X.at[1], how)(3), np.float32(want))
    close(getattr(X.at[1], how)(3, indices_are_sorted=True, unique_indices=True), np.float32(want))
    close(getattr(X.at[tnp.array(7)], how)(3, mode="drop"), X)


def test_get_and_apply():
    close(X.at[tnp.array([2, 5])].get(mode="fill", fill_value=-1), np.float32([8, -1]))
    close(X.at[1:].apply(tnp.negative), np.float32([4, -2, -8]))
