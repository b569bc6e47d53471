"""Convolutions against the definition as a loop."""

import itertools

import numpy as np
import pytest

import tfn
from tests.lax.test_contraction import normal
from tfn import lax
from tfn.errors import ArgumentError, ShapeError
from tfn.lax.convolution import Layout

NHWC = ("NHWC", "HWIO", "NHWC")


def naive(
    x: np.ndarray, w: np.ndarray, strides: tuple[int, ...], padding: list[tuple[int, int]]
) -> np.ndarray:
    """The sum over the window at every place, NHWC and HWIO, with zeros around."""
    x = np.pad(x, [(0, 0), *padding, (0, 0)])
    sizes = [(x.shape[i + 1] - w.shape[i]) // strides[i] + 1 for i in range(2)]
    out = np.zeros((x.shape[0], *sizes, w.shape[-1]))
    for i, j in itertools.product(*map(range, sizes)):
        top, left = i * strides[0], j * strides[1]
        patch = x[:, top : top + w.shape[0], left : left + w.shape[1]]
        out[:, i, j] = np.tensordot(patch, w, 3)
    return out


@pytest.mark.parametrize("strides", [(1, 1), (2, 3)])
@pytest.mark.parametrize(
    ("padding", "pairs"),
    [("VALID", [(0, 0), (0, 0)]), ([(1, 2), (0, 3)], [(1, 2), (0, 3)])],
    ids=["valid", "pairs"],
)
def test_conv(strides: tuple[int, int], padding: object, pairs: list[tuple[int, int]]) -> None:
    x, w = normal(2, 7, 6, 3), normal(3, 2, 3, 5)
    out = lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=NHWC)  # type: ignore[arg-type]
    np.testing.assert_allclose(out, naive(x, w, strides, pairs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "layout", [None, ("NCHW", "OIHW", "NCHW"), ("NCHW", "HWIO", "NHWC"), ("HWNC", "OHWI", "CWHN")]
)
def test_layouts(layout: Layout) -> None:
    x, w = normal(2, 5, 6, 3), normal(2, 3, 3, 4)
    expected = naive(x, w, (1, 2), [(0, 0), (0, 0)])
    lhs, rhs, out = layout if isinstance(layout, tuple) else ("NCHW", "OIHW", "NCHW")
    put = lambda v, have, want: v.transpose([have.index(c) for c in want])
    got = lax.conv_general_dilated(
        put(x, "NHWC", lhs), put(w, "HWIO", rhs), (1, 2), "VALID", dimension_numbers=layout
    )
    np.testing.assert_allclose(got, put(expected, "NHWC", out), rtol=1e-4, atol=1e-5)


def test_dilations_are_zeros_between() -> None:
    x, w = normal(1, 4, 5, 2), normal(2, 3, 2, 3)
    spread_w = np.zeros((3, 7, 2, 3), np.float32)
    spread_w[::2, ::3] = w
    pads = [(2, 2), (3, 3)]
    out = lax.conv_general_dilated(x, w, (1, 1), pads, rhs_dilation=(2, 3), dimension_numbers=NHWC)
    np.testing.assert_allclose(out, naive(x, spread_w, (1, 1), pads), rtol=1e-4, atol=1e-5)
    spread_x = np.zeros((1, 7, 13, 2), np.float32)
    spread_x[:, ::2, ::3] = x
    out = lax.conv_general_dilated(x, w, (1, 1), pads, (2, 3), dimension_numbers=NHWC)
    np.testing.assert_allclose(out, naive(spread_x, w, (1, 1), pads), rtol=1e-4, atol=1e-5)


def test_groups() -> None:
    x, w = normal(2, 5, 5, 4), normal(3, 3, 2, 6)
    out = lax.conv_general_dilated(
        x, w, (1, 1), "VALID", dimension_numbers=NHWC, feature_group_count=2
    )
    halves = [
        naive(x[..., 2 * g : 2 * g + 2], w[..., 3 * g : 3 * g + 3], (1, 1), [(0, 0)] * 2)
        for g in range(2)
    ]
    np.testing.assert_allclose(out, np.concatenate(halves, -1), rtol=1e-4, atol=1e-5)
    w = normal(3, 3, 4, 6)
    out = lax.conv_general_dilated(
        x, w, (1, 1), "VALID", dimension_numbers=NHWC, batch_group_count=2
    )
    halves = [
        naive(x[g : g + 1], w[..., 3 * g : 3 * g + 3], (1, 1), [(0, 0)] * 2) for g in range(2)
    ]
    np.testing.assert_allclose(out, np.concatenate(halves, -1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_conv_transpose_is_the_transpose(padding: str, stride: int) -> None:
    """``<conv(x), y> == <x, conv_transpose(y)>`` with the same kernel."""
    size = 4 * stride if padding == "SAME" else (4 - 1) * stride + max(3, stride)
    x, y, w = normal(1, size, 2), normal(1, 4, 5), normal(3, 2, 5)
    layout = ("NHC", "HIO", "NHC")
    forward = lax.conv_general_dilated(x, w, (stride,), padding, dimension_numbers=layout)
    back = lax.conv_transpose(y, w, (stride,), padding, transpose_kernel=True)
    assert forward.shape == y.shape
    assert back.shape == x.shape
    left, right = np.vdot(np.asarray(forward), y), np.vdot(x, np.asarray(back))
    np.testing.assert_allclose(left, right, rtol=1e-4)


def test_conv_refuses() -> None:
    x, w = normal(1, 5, 5, 3), normal(3, 3, 3, 4)
    with pytest.raises(ArgumentError, match="layout of 4 axes"):
        lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWD"))
    with pytest.raises(ArgumentError, match="padding is"):
        lax.conv_general_dilated(x, w, (1, 1), "FULL", dimension_numbers=NHWC)
    with pytest.raises(ArgumentError, match="when lhs is dilated"):
        lax.conv_general_dilated(x, w, (1, 1), "SAME", (2, 2), dimension_numbers=NHWC)
    with pytest.raises(ShapeError, match="strides"):
        lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=NHWC)
    with pytest.raises(ShapeError, match="input channels"):
        lax.conv_general_dilated(x, w[:, :, :2], (1, 1), "SAME", dimension_numbers=NHWC)


@pytest.mark.parametrize("groups", [{}, {"feature_group_count": 2}, {"batch_group_count": 2}])
def test_gradients_of_conv_are_its_adjoints(groups: dict[str, int]) -> None:
    """A convolution is linear in each operand: ``<conv(x, w), ct> == <x, dx> == <w, dw>``."""
    x, w = normal(2, 7, 8, 4), normal(3, 2, 4 // groups.get("feature_group_count", 1), 6)

    def conv(x: object, w: object) -> tfn.Array:
        return lax.conv_general_dilated(
            x, w, (2, 1), [(1, 2), (-1, 3)], None, (1, 2), NHWC, **groups
        )  # type: ignore[arg-type]

    y = np.asarray(conv(x, w))
    ct = normal(*y.shape)
    dx, dw = tfn.grad(lambda x, w: (conv(x, w) * ct).sum(), argnums=(0, 1))(
        *map(tfn.numpy.asarray, (x, w))
    )
    np.testing.assert_allclose(np.vdot(x, dx), np.vdot(y, ct), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(np.vdot(w, dw), np.vdot(y, ct), rtol=1e-3, atol=1e-3)
    dy = tfn.jvp(lambda x: conv(x, w), (tfn.numpy.asarray(x),), (tfn.numpy.asarray(x),))[1]
    np.testing.assert_allclose(dy, y, rtol=1e-4, atol=1e-4)


GROUPS = [(1, 1), (2, 1), (4, 1), (1, 2), (1, 4)]


@pytest.mark.parametrize(("features", "batches"), GROUPS)
def test_conv_is_mapped(features: int, batches: int) -> None:
    x, w = normal(3, 4, 5, 5, 4), normal(3, 2, 2, 4 // features, 8)
    conv = lambda x, w: lax.conv_general_dilated(
        x,
        w,
        (1, 1),
        "SAME",
        dimension_numbers=NHWC,
        feature_group_count=features,
        batch_group_count=batches,
    )
    both = tfn.vmap(conv)(x, w)
    images = tfn.vmap(conv, in_axes=(0, None))(x, w[0])
    kernels = tfn.vmap(conv, in_axes=(None, 0))(x[0], w)
    for i in range(3):
        np.testing.assert_allclose(both[i], conv(x[i], w[i]), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(images[i], conv(x[i], w[0]), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(kernels[i], conv(x[0], w[i]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("features", "batches"), GROUPS)
def test_gradients_of_conv_for_each_example(features: int, batches: int) -> None:
    """Gradients by the weights are convolutions with groups, in which both operands are mapped."""
    xs, w = normal(3, 4, 5, 4), normal(3, 4 // features, 8)

    def loss(w: tfn.Array, x: tfn.Array) -> tfn.Array:
        y = lax.conv_general_dilated(
            x,
            w,
            (1,),
            "SAME",
            dimension_numbers=("NHC", "HIO", "NHC"),
            feature_group_count=features,
            batch_group_count=batches,
        )
        return (y * y).sum()

    both = tfn.vmap(tfn.grad(loss, argnums=(0, 1)), in_axes=(None, 0))(w, xs)
    for i, x in enumerate(map(tfn.numpy.asarray, xs)):
        for actual, one in zip(both, tfn.grad(loss, argnums=(0, 1))(tfn.numpy.asarray(w), x)):
            np.testing.assert_allclose(actual[i], one, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", [None, ("NHWC", "HWIO", "NHWC")])
def test_patches(layout: tuple[str, str, str] | None) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 6)).astype("float32")
    given = x if layout is None else x.transpose(0, 2, 3, 1)
    actual = np.asarray(
        lax.conv_general_dilated_patches(given, (2, 3), (1, 2), "VALID", dimension_numbers=layout)
    )
    actual = actual if layout is None else actual.transpose(0, 3, 1, 2)
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 3), (2, 3))[:, :, :, ::2]
    expected = windows.transpose(0, 1, 4, 5, 2, 3).reshape(2, 18, 4, 2)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_a_convolution_with_unshared_weights() -> None:
    draw = np.random.RandomState(0)
    x, w = draw.randn(2, 6, 5, 3), draw.randn(5, 4, 3 * 2 * 2, 4)
    layout = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated_local(x, w, (1, 1), "VALID", (2, 2), dimension_numbers=layout)
    for i, j in ((0, 0), (4, 3)):
        window = x[:, i : i + 2, j : j + 2].transpose(0, 3, 1, 2).reshape(2, -1)
        np.testing.assert_allclose(y[:, i, j], window @ w[i, j], rtol=1e-10)
