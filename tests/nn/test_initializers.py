"""Initializers: the values that jax 0.10 gives for ``key(3)``, and the variance they promise."""

import numpy as np
import pytest

from tfn import numpy as jnp
from tfn import random
from tfn.errors import ArgumentError, ShapeError
from tfn.nn import initializers

KEY = random.key(3)
# fmt: off
VALUES = {
    "lecun_normal": [-1.061036, 1.119893, 0.292843, 1.354311, -0.448468, 0.160578],
    "lecun_uniform": [-1.043354, 1.07323, 0.364869, 1.165029, -0.542861, 0.203156],
    "glorot_normal": [-0.949019, 1.001663, 0.261927, 1.211333, -0.401122, 0.143626],
    "glorot_uniform": [-0.933204, 0.959926, 0.326348, 1.042033, -0.48555, 0.181708],
    "he_normal": [-1.500531, 1.583768, 0.414143, 1.915285, -0.63423, 0.227092],
    "he_uniform": [-1.475525, 1.517776, 0.516002, 1.647599, -0.767722, 0.287306],
}
AXES = [-1.500531, 1.583768, 0.414143, 1.915285]
GEOMETRIC = [-1.554104, 1.654173, 0.41103]
# fmt: on


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    out = getattr(initializers, name)()(KEY, (2, 3))
    np.testing.assert_allclose(np.ravel(out), VALUES[name], rtol=1e-4, atol=2e-6)


COMPLEX = {
    "lecun_normal": [0.0553397 + 0.0091198j, -0.1229184 - 0.0329959j],
    "lecun_uniform": [0.0751242 + 0.0123803j, -0.165392 - 0.0443974j],
    "glorot_normal": [0.0606216 + 0.0099903j, -0.1346503 - 0.0361451j],
    "orthogonal": [-0.7595168 - 0.6205629j, 0.1176820 + 0.1159063j],
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_values(name: str) -> None:
    out = getattr(initializers, name)()(KEY, (3, 2), "complex64")
    assert out.dtype == np.complex64
    np.testing.assert_allclose(np.ravel(out)[:2], COMPLEX[name], rtol=1e-4, atol=2e-6)


def test_axes_and_modes() -> None:
    init = initializers.he_normal(in_axis=(0, 1), out_axis=2, batch_axis=3)
    np.testing.assert_allclose(np.ravel(init(KEY, (2, 1, 1, 2))), AXES, rtol=1e-4, atol=2e-6)
    init = initializers.variance_scaling(2.0, "fan_geo_avg", "normal")
    np.testing.assert_allclose(np.ravel(init(KEY, (1, 3))), GEOMETRIC, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("distribution", ["normal", "uniform", "truncated_normal"])
@pytest.mark.parametrize("mode", ["fan_in", "fan_out", "fan_avg"])
def test_variance(mode: str, distribution: str) -> None:
    x = np.asarray(initializers.variance_scaling(3.0, mode, distribution)(KEY, (3, 3, 8, 16)))
    fan = {"fan_in": 72, "fan_out": 144, "fan_avg": 108}[mode]
    assert abs(x.var() * fan / 3 - 1) < 0.15
    assert abs(x.mean()) < 5 * (3 / fan / x.size) ** 0.5


def test_simple_ones() -> None:
    assert initializers.zeros(KEY, (2,)).tolist() == [0, 0]
    assert initializers.ones(KEY, (2,), "int8").dtype == np.int8
    assert initializers.constant(2.5)(KEY, (2,)).tolist() == [2.5, 2.5]
    assert initializers.constant(2.5)(KEY, (2,), "bfloat16").dtype == jnp.bfloat16
    assert 0 <= np.asarray(initializers.uniform(0.1)(KEY, (50,))).max() < 0.1
    assert abs(np.asarray(initializers.truncated_normal(0.1)(KEY, (200,)))).max() < 0.2
    assert np.asarray(initializers.normal(0.1)(KEY, (0, 3))).shape == (0, 3)


def test_refusals() -> None:
    with pytest.raises(ArgumentError, match="knows no mode 'fan'"):
        initializers.variance_scaling(1.0, "fan", "normal")
    with pytest.raises(ShapeError, match="at least two axes"):
        initializers.he_normal()(KEY, (3,))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 3, 4), (4, 0)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    w = np.asarray(initializers.orthogonal(2.0)(random.key(1), shape))
    assert w.shape == shape
    flat = w.reshape(-1, shape[-1]) if shape[-1] else w
    small = flat.T @ flat if flat.shape[0] >= flat.shape[1] else flat @ flat.T
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)


@pytest.mark.parametrize("dtype", ["complex64", "bfloat16", "float16"])
def test_orthogonal_of_other_dtypes(dtype: str) -> None:
    w = initializers.orthogonal()(random.key(1), (3, 2), dtype)
    assert w.dtype == dtype
    wide = np.asarray(w, np.complex64)
    np.testing.assert_allclose(wide.conj().T @ wide, np.eye(2), atol=1e-5 if "x" in dtype else 0.02)


def test_orthogonal_along_another_axis() -> None:
    w = np.asarray(initializers.orthogonal(column_axis=0)(random.key(1), (3, 2, 4)))
    flat = w.reshape(3, 8)
    np.testing.assert_allclose(flat @ flat.T, np.eye(3), atol=1e-5)
    with pytest.raises(ShapeError, match="two axes"):
        initializers.orthogonal()(random.key(0), (3,))


def test_delta_orthogonal() -> None:
    w = np.asarray(initializers.delta_orthogonal()(random.key(1), (3, 3, 2, 4)))
    np.testing.assert_allclose(w[1, 1] @ w[1, 1].T, np.eye(2), atol=1e-5)
    assert np.abs(w).sum() == np.abs(w[1, 1]).sum()
    with pytest.raises(ArgumentError, match="inputs <= outputs"):
        initializers.delta_orthogonal()(random.key(0), (3, 4, 2))


def test_a_variance_is_not_negative() -> None:
    with pytest.raises(ArgumentError, match="not negative"):
        initializers.variance_scaling(-1.0, "fan_in", "normal")
