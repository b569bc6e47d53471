"""Recursive filters beside SciPy: orders, axes, states, both directions, derivatives."""

import numpy as np
import pytest
import scipy.signal

import tfn
from tfn.errors import TfnError
from tfn.scipy import signal

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 40, 2))
FILTERS = {
    "lowpass": scipy.signal.butter(4, 0.3),
    "gain": ([0.5], [2.0]),
    "long numerator": ([1.0, 2.0, 3.0, 4.0], [2.0, 0.5]),
    "long denominator": ([1.0], [1.0, -0.3, 0.2, 0.1]),
}
SECTIONS = scipy.signal.butter(5, 0.2, output="sos")


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", FILTERS)
def test_filters_and_their_states_are_those_of_scipy(name, axis):
    b, a = FILTERS[name]
    np.testing.assert_allclose(
        signal.lfilter(b, a, X, axis), scipy.signal.lfilter(b, a, X, axis), atol=1e-10
    )
    zi = signal.lfilter_zi(b, a)
    if not zi.size:
        return  # SciPy's has no state of none
    np.testing.assert_allclose(zi, scipy.signal.lfilter_zi(b, a), atol=1e-10)
    shape = [1, 1, 1]
    shape[axis] = zi.size
    start = np.asarray(zi).reshape(shape) * np.take(X, [0], axis)
    ours, theirs = (f.lfilter(b, a, X, axis, start) for f in (signal, scipy.signal))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sections_and_their_states_are_those_of_scipy(axis):
    ours, theirs = (f.sosfilt(SECTIONS, X, axis) for f in (signal, scipy.signal))
    np.testing.assert_allclose(ours, theirs, atol=1e-10)
    np.testing.assert_allclose(
        signal.sosfilt_zi(SECTIONS), scipy.signal.sosfilt_zi(SECTIONS), atol=1e-10
    )
    shape = list(X.shape)
    shape[axis] = 2
    start = RNG.standard_normal((len(SECTIONS), *shape))
    ours, theirs = (f.sosfilt(SECTIONS, X, axis, start) for f in (signal, scipy.signal))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)


@pytest.mark.parametrize("padtype", ["odd", "even", "constant", None])
def test_both_directions_are_those_of_scipy(padtype):
    b, a = FILTERS["lowpass"]
    for padlen in (None, 7):
        options = {"axis": 1, "padtype": padtype, "padlen": padlen}
        for name, given in (("filtfilt", (b, a)), ("sosfiltfilt", (SECTIONS,))):
            ours, theirs = (getattr(f, name)(*given, X, **options) for f in (signal, scipy.signal))
            np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_filters_have_derivatives_by_coefficients_and_batch():
    b, a = (np.asarray(c) for c in FILTERS["lowpass"])
    value = lambda a: (signal.lfilter(b, a, X[0, :, 0]) ** 2).sum()
    step = np.eye(a.size)[2] * 1e-6
    slope = tfn.jit(tfn.grad(value))(a)
    np.testing.assert_allclose(slope[2], (value(a + step) - value(a - step)) / 2e-6, rtol=1e-5)
    rows = tfn.vmap(lambda x: signal.sosfilt(SECTIONS, x))(X[0].T)
    np.testing.assert_allclose(rows, scipy.signal.sosfilt(SECTIONS, X[0].T), atol=1e-10)


def test_wrong_calls():
    for call in (
        lambda: signal.lfilter(np.ones((2, 2)), [1.0], X),
        lambda: signal.lfilter([], [1.0], X),
        lambda: signal.sosfilt(np.ones((2, 5)), X),
        lambda: signal.filtfilt([1.0], [1.0, 0.5], X),
        lambda: signal.filtfilt([1.0], [1.0, 0.5], X, 1, "other"),
    ):
        with pytest.raises(TfnError):
            call()
