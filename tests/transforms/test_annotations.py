"""Annotations of jaxtyping: refused arguments, ignored annotations, and the errors."""

# ruff: noqa: F722, F821  (names of axes are no Python)

import functools

import numpy as np
import pytest
from jaxtyping import Bool, Float, Int, Shaped

import tfn
import tfn.numpy as tnp
from tfn import Array
from tfn.errors import DTypeError, ShapeError, TracerBoolConversionError

ONES = tnp.ones


def scores(w: Float[Array, "d k"], x: Float[Array, "batch d"]) -> Float[Array, "batch k"]:
    return x @ w


@pytest.mark.parametrize(
    "transform",
    [
        tfn.jit,
        lambda f: tfn.vmap(f, in_axes=None, axis_size=2),
        lambda f: tfn.grad(lambda *xs: f(*xs).sum()),
        lambda f: functools.partial(tfn.jvp, f),
    ],
)
def test_matching_annotations_pass(transform):
    if transform(scores).__class__ is functools.partial:
        xs = (ONES((3, 2)), ONES((5, 3)))
        transform(scores)(xs, xs)
    else:
        transform(scores)(ONES((3, 2)), ONES((5, 3)))


@pytest.mark.parametrize("transform", [tfn.jit, lambda f: tfn.value_and_grad(f)])
def test_a_name_has_one_size(transform):
    with pytest.raises(ShapeError) as caught:
        transform(scores)(ONES((4, 2)), ONES((5, 3)))
    assert caught.value.what == 'x of scores is annotated Float[Array, "batch d"]'
    assert caught.value.got == "f32[5,3], where d is 4 (axis 0 of w) and 3 (axis 1 of x)"


def refused(annotation, value, error=ShapeError):
    def f(x, y):
        return 0.0

    f.__annotations__ = {"x": Float[Array, "n"], "y": annotation}
    try:
        tfn.jit(f)(ONES(4), value)
    except error:
        return True
    return False


# fmt: off
SHAPES = [
    (Float[Array, "3"], ONES(3), ONES(4)),
    (Float[Array, "rows=3"], ONES(3), ONES(4)),
    (Float[Array, ""], ONES(()), ONES(1)),
    (Float[Array, "n+1"], ONES(5), ONES(4)),
    (Float[Array, "m m"], ONES((2, 2)), ONES((2, 3))),
    (Float[Array, "_ _"], ONES((2, 3)), ONES(2)),
    (Float[Array, "#n"], ONES(1), ONES(3)),
    (Float[Array, "..."], ONES((2, 3)), None),
    (Float[Array, "... n"], ONES((2, 3, 4)), ONES((2, 3))),
    (Float[Array, "*b n"], ONES((2, 3, 4)), ONES((2, 3))),
    (Float[Array, "n *b n"], ONES((4, 4)), ONES((4,))),
    (Float[Array, "*#b n"], ONES((1, 4)), ONES(3)),
    (Float[Array, "n"] | None, ONES(4), ONES(3)),
    (tuple[Float[Array, "n"], ...], (ONES(4), ONES(4)), (ONES(4), ONES(3))),
    (tuple[Float[Array, "n"], int], (ONES(4), 2), (ONES(3), 2)),
    (list[Float[Array, "n"]], [ONES(4)], [ONES(4), ONES(5)]),
    (dict[str, Float[Array, "n"]], {"a": ONES(4)}, {"a": ONES(5)}),
    (Float[np.ndarray, "n"], np.ones(4), np.ones(3)),
    (Shaped[Array, "n"], tnp.arange(4), tnp.arange(3)),
    (Float[Array, "k+1"], ONES(7), None),  # of a name without a size
]
# fmt: on


@pytest.mark.parametrize(("annotation", "good", "bad"), SHAPES)
def test_shapes(annotation, good, bad):
    assert not refused(annotation, good)
    assert bad is None or refused(annotation, bad)


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (Float[Array, "n"], tnp.ones(4, "bfloat16"), tnp.ones(4, int)),
        (Int[Array, "n"], tnp.ones(4, "int8"), ONES(4)),
        (Bool[Array, "n"], ONES(4) > 0, ONES(4)),
    ],
)
def test_dtypes(annotation, good, bad):
    assert not refused(annotation, good, DTypeError)
    assert refused(annotation, bad, DTypeError)


def test_the_result_is_held_too():
    @tfn.jit
    def mean(x: Float[Array, "batch d"]) -> Float[Array, "d"]:
        return x.mean(1)

    with pytest.raises(ShapeError, match="the result of mean is annotated"):
        mean(ONES((5, 3)))


def test_errors_tell_what_names_stand_for():
    @tfn.jit
    def wrong(w: Float[Array, "d k"], x: Float[Array, "batch d"]):
        return w @ x

    with pytest.raises(ShapeError) as caught:
        wrong(ONES((3, 2)), ONES((5, 3)))
    assert caught.value.__notes__[0] == "  where: d=3, k=2, batch=5 in wrong"

    @tfn.jit
    def branch(x: Float[Array, "batch d"]):
        return x if x.sum() > 0 else -x

    with pytest.raises(TracerBoolConversionError, match=r"depends on x \(batch d\)"):
        branch(ONES((5, 3)))


def test_a_lane_is_held_to_its_annotation():
    @tfn.vmap
    def lane(x: Float[Array, "d"], *more: Float[Array, "d+1"]):
        return x.sum()

    lane(ONES((4, 3)), ONES((4, 4)))
    with pytest.raises(ShapeError, match=r"axis 0 of more\[0\] should be d\+1 = 4"):
        lane(ONES((4, 3)), ONES((4, 5)))


def test_it_is_looked_at_once_for_each_trace(monkeypatch):
    looked = []
    monkeypatch.setattr(
        "tfn.transforms.annotations.Sizes.hold", lambda self, path, *rest: looked.append(path)
    )
    f = tfn.jit(scores)
    for _ in range(3):
        f(ONES((3, 2)), ONES((5, 3)))
    assert looked == ["w", "x", "the result"]


def test_annotations_that_cannot_be_read_are_not():
    def f(x: "Float[Nowhere, 'n']", y: "Float[Array, 'n']"):
        return x

    assert tfn.jit(f)(ONES(2), ONES(3)).shape == (2,)
