"""Samples between elements beside NumPy's interpolation, and boxes that overlap."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx.building import graph, model, node
from tests.onnx.ops.cases import F, outputs, ramp
from tfn import onnx
from tfn.errors import ArgumentError

X = ramp(1, 1, 4, 6)


def resized(x: np.ndarray, scales: list[float], **attributes: object) -> np.ndarray:  # type: ignore[type-arg]
    """A resize by scales that are constants of the model."""
    rows = [node("Resize", "x . s", "y", **attributes)]
    made = model(graph(rows, ["x"], ["y"], {"s": np.array(scales, F)}))
    return np.asarray(onnx.load(made)(x)["y"])


def test_nearest_elements_are_repeated() -> None:
    np.testing.assert_array_equal(resized(X, [1, 1, 2, 3]), X.repeat(2, 2).repeat(3, 3))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_lines_stay_lines_between_the_ends(mode: str) -> None:
    x = np.arange(12, dtype=F).reshape(1, 1, 1, 12)
    y = resized(x, [1, 1, 1, 2], mode=mode, cubic_coeff_a=-0.5)[0, 0, 0]
    np.testing.assert_allclose(y[6:-6], np.arange(24)[6:-6] / 2 - 0.25, rtol=1e-4)
    ends = resized(x, [1, 1, 1, 2], mode="linear", coordinate_transformation_mode="align_corners")
    np.testing.assert_allclose(ends[0, 0, 0], np.linspace(0, 11, 24), rtol=1e-5, atol=1e-5)


def test_smaller_images_are_means_if_asked() -> None:
    x = F([[[[0, 4, 0, 4, 0, 4, 0, 4]]]])
    y = resized(x, [1, 1, 1, 0.5], mode="linear", antialias=1)
    np.testing.assert_allclose(y[0, 0, 0, 1:-1], [2, 2], atol=0.6)


def test_sizes_may_keep_proportions() -> None:
    sizes = np.array([8, 8], np.int64)
    for policy, want in (("not_larger", (5, 8)), ("not_smaller", (8, 12)), ("stretch", (8, 8))):
        rows = [node("Resize", "x . . n", "y", keep_aspect_ratio_policy=policy, axes=[2, 3])]
        y = onnx.load(model(graph(rows, ["x"], ["y"], {"n": sizes})))(X)["y"]
        assert y.shape[2:] == want
    with pytest.raises(ArgumentError, match="knows no mode 'odd'"):
        resized(X, [1, 1, 2, 2], coordinate_transformation_mode="odd")


def test_the_grid_of_no_transform_gives_the_image() -> None:
    theta = F([[[1, 0, 0], [0, 1, 0]]])
    for corners in (0, 1):
        grid = outputs(
            "AffineGrid", theta, np.array([1, 1, 4, 6], np.int64), align_corners=corners
        )[0]
        for mode in ("linear", "nearest", "cubic"):
            y = outputs("GridSample", X, np.asarray(grid), align_corners=corners, mode=mode)[0]
            np.testing.assert_allclose(y, X, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("padding", "want"), [("zeros", 0), ("border", 2), ("reflection", 1)])
def test_what_lies_beside_an_image(padding: str, want: float) -> None:
    x = F([[[[1, 2]]]])
    grid = F([[[[2.0, 0.0]]]])  # one element to the right of the last
    y = outputs("GridSample", x, grid, padding_mode=padding, mode="nearest", align_corners=1)[0]
    assert np.asarray(y).item() == want


def test_regions_are_means_of_samples() -> None:
    x = np.full((1, 2, 8, 8), 3, F)
    rois, batch = F([[0, 0, 4, 4], [2, 2, 7, 7]]), np.zeros(2, np.int64)
    y = outputs("RoiAlign", x, rois, batch, output_height=2, output_width=2, sampling_ratio=2)[0]
    np.testing.assert_allclose(y, np.full((2, 2, 2, 2), 3), rtol=1e-5)


def test_overlapping_boxes_are_left_out() -> None:
    boxes = F([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3]]])
    scores = F([[[0.8, 0.9, 0.5]]])
    limits = (np.array([3], np.int64), F([0.5]), F([0.1]))
    got = outputs("NonMaxSuppression", boxes, scores, *limits)[0]
    assert got.tolist() == [[0, 0, 1], [0, 0, 2]]


def test_a_window_that_is_not_moved_is_a_convolution() -> None:
    x, w = ramp(1, 2, 5, 5), ramp(3, 2, 2, 2)
    still = np.zeros((1, 8, 4, 4), F)
    want = outputs("Conv", x, w)[0]
    np.testing.assert_allclose(outputs("DeformConv", x, w, still)[0], want, rtol=1e-4, atol=1e-4)
