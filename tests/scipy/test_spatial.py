"""Rotations against SciPy's."""

from itertools import permutations, product

import numpy as np
import pytest
import scipy.spatial.transform

import tfn
from tests.covering import in_turn
from tfn.errors import TfnError
from tfn.scipy.spatial.transform import Rotation, Slerp

RNG = np.random.default_rng(0)
QUATERNIONS = np.concatenate([RNG.standard_normal((20, 4)), np.eye(4), -np.eye(4)])
OURS = Rotation.from_quat(QUATERNIONS)
THEIRS = scipy.spatial.transform.Rotation.from_quat(QUATERNIONS)
PROPER = ["".join((a, b, a)) for a, b in permutations("xyz", 2)]
SEQUENCES = ["".join(p) for p in permutations("xyz")] + PROPER


def near(got, want, tolerance=1e-9):
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_forms_are_those_of_scipy():
    near(OURS.as_matrix(), THEIRS.as_matrix())
    near(OURS.magnitude(), THEIRS.magnitude())
    near(OURS.as_quat(canonical=True), THEIRS.as_quat(canonical=True))
    near(OURS.as_quat(scalar_first=True), THEIRS.as_quat(scalar_first=True))
    for degrees in (False, True):
        near(OURS[:20].as_rotvec(degrees), THEIRS[:20].as_rotvec(degrees))
    near(OURS[:20].as_mrp(), THEIRS[:20].as_mrp())
    for form in ("quat", "matrix", "rotvec", "mrp"):
        again = getattr(Rotation, f"from_{form}")(getattr(OURS, f"as_{form}")())
        near(again.as_matrix(), THEIRS.as_matrix())
    small = Rotation.from_rotvec(np.float64([[1e-5, 0, 2e-5], [0, 0, 0]]))
    near(small.as_rotvec(), [[1e-5, 0, 2e-5], [0, 0, 0]], 1e-15)


@pytest.mark.parametrize("seq", in_turn(2, SEQUENCES + [s.upper() for s in SEQUENCES]))
def test_euler_angles(seq):
    angles = RNG.uniform(-3, 3, (10, 3))
    scipy_rotation = scipy.spatial.transform.Rotation
    near(
        Rotation.from_euler(seq, angles).as_matrix(),
        scipy_rotation.from_euler(seq, angles).as_matrix(),
    )
    near(OURS[:20].as_euler(seq), THEIRS[:20].as_euler(seq), 1e-8)
    back = Rotation.from_euler(seq, OURS.as_euler(seq, degrees=True), degrees=True)
    near(back.as_matrix(), THEIRS.as_matrix(), 1e-7)  # where an angle is lost, too
    near(
        Rotation.from_euler(seq[0], np.array(0.3)).as_matrix(),
        scipy_rotation.from_euler(seq[0], 0.3).as_matrix(),
    )


def test_products_inverses_and_vectors():
    other = Rotation.from_quat(QUATERNIONS[::-1].copy())
    theirs = scipy.spatial.transform.Rotation.from_quat(QUATERNIONS[::-1])
    near((OURS * other).as_matrix(), (THEIRS * theirs).as_matrix())
    near((OURS * OURS.inv()).magnitude(), 0, 1e-7)
    vectors = RNG.standard_normal((len(QUATERNIONS), 3))
    for inverse in (False, True):
        near(OURS.apply(vectors, inverse), THEIRS.apply(vectors, inverse))
    near(OURS[0].apply(vectors), THEIRS[0].apply(vectors))
    weights = RNG.uniform(0.5, 1, len(QUATERNIONS))
    near(OURS[:20].mean(weights[:20]).as_matrix(), THEIRS[:20].mean(weights[:20]).as_matrix())
    assert len(Rotation.concatenate([OURS, OURS[0]])) == len(QUATERNIONS) + 1
    assert Rotation.identity(3).as_matrix().tolist() == [np.eye(3).tolist()] * 3
    near((Rotation.random(tfn.random.key(0), 5).quat ** 2).sum(1), 1, 1e-6)


def test_interpolation():
    times = np.float64([0, 1, 3, 4])
    ours, theirs = OURS[:4], THEIRS[:4]
    places = np.float64([0, 0.3, 1, 2.5, 3.9, 4])
    near(
        Slerp.init(times, ours)(places).as_matrix(),
        scipy.spatial.transform.Slerp(times, theirs)(places).as_matrix(),
    )


def test_transforms():
    v = np.float64([0.3, -0.2, 0.5])

    def f(v):
        return Rotation.from_rotvec(v).as_matrix()[0].sum()

    step = 1e-6
    want = [(f(v + step * e) - f(v - step * e)) / (2 * step) for e in np.eye(3)]
    near(tfn.grad(f)(v), want, 1e-8)
    assert np.isfinite(tfn.grad(f)(0 * v)).all()
    near(tfn.vmap(lambda q: Rotation.from_quat(q).as_matrix())(QUATERNIONS), OURS.as_matrix())
    near(tfn.jit(lambda r: r.as_matrix())(OURS), OURS.as_matrix())


def test_wrong_calls():
    for seq, call in product(
        ("xyq", "xY", "", "xyzx"), (lambda s: Rotation.from_euler(s, np.zeros(3)), OURS.as_euler)
    ):
        with pytest.raises(TfnError):
            call(seq)
    for call in (
        lambda: OURS.as_euler("xxy"),
        lambda: Rotation.from_quat(np.zeros(3)),
        lambda: Slerp.init(np.zeros(3), OURS),
        lambda: Rotation.from_euler("xyz", np.zeros(2)),
        lambda: Rotation.from_euler("xyz", 0.5),
        lambda: Rotation.from_euler("x", np.zeros((2, 3))),
        lambda: OURS[0][0],
    ):
        with pytest.raises(TfnError):
            call()
    with pytest.raises(TypeError):
        len(OURS[0])
