"""Samples between elements: resizes, grids, regions, deformed windows; boxes that overlap.

A sample is a sum of a few elements, each times a weight.  Where the positions are known while
tracing, so are elements and weights, and only the sum is left in the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import ceil, floor
from typing import Any

import numpy as np

from tfn import numpy as jnp
from tfn.errors import ArgumentError
from tfn.onnx.ops.known import Value, integers, like, numbers

Weights = np.ndarray[Any, Any]


def _cubic(x: Any, a: float, xp: Any = np) -> Any:
    """Keys's kernel: a cubic of the distance, zero from 2 on."""
    x = xp.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return xp.where(x <= 1, near, xp.where(x < 2, far, 0))


def _positions(
    mode: str, size: int, scale: float, result: int, roi: tuple[float, float]
) -> Weights:
    """The position in the input of each element of the result."""
    y = np.arange(result, dtype=np.float64)
    wide = scale * size
    if mode == "align_corners":
        return np.zeros(result) if wide == 1 else y * (size - 1) / (wide - 1)
    if mode == "asymmetric":
        return y / scale
    if mode == "tf_crop_and_resize":
        first, last = roi
        if wide == 1:
            return np.full(result, (last - first) * (size - 1) / 2 + first * (size - 1))
        return y * (last - first) * (size - 1) / (wide - 1) + first * (size - 1)
    centre = (y + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel" and wide == 1:
        return np.full(result, -0.5)
    if mode == "half_pixel_symmetric":
        return centre + size / 2 * (1 - result / wide)
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return centre
    raise ArgumentError(
        f"Resize knows no mode {mode!r} of positions", got=mode, hint="export again"
    )


ROUNDED: dict[str, Callable[[Weights], Weights]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _taps(
    x: Weights, mode: str, scale: float, cubic: float, antialias: bool, size: int, outside: bool
) -> tuple[Weights, Weights]:
    """Elements and their weights for each position: (positions, taps) of both."""
    shrink = min(scale, 1.0) if antialias else 1.0
    reach = (1 if mode == "linear" else 2) / shrink
    steps = np.arange(floor(-reach) + 1, ceil(reach) + 1)
    places = np.floor(x)[:, None] + steps
    apart = (places - x[:, None]) * shrink
    weights = np.clip(1 - np.abs(apart), 0, None) if mode == "linear" else _cubic(apart, cubic)
    if outside:
        weights = np.where((places < 0) | (places >= size), 0, weights)
    if outside or antialias:
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(places, 0, size - 1).astype(np.int32), weights


def Resize(
    x: Value,
    roi: Value = None,
    scales: Value = None,
    sizes: Value = None,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    opset: int = 19,
) -> Value:
    """Images of another size."""
    if opset < 11:  # scales alone, and positions of another kind
        roi, scales = None, roi
        coordinate_transformation_mode, nearest_mode = "asymmetric", "floor"
    x = jnp.asarray(x)
    over = [a % x.ndim for a in axes] if axes is not None else list(range(x.ndim))
    given = sizes is not None and np.size(sizes)
    if given:
        want = integers(sizes, "sizes")
        factors = [n / x.shape[a] for n, a in zip(want, over, strict=True)]
        if keep_aspect_ratio_policy != "stretch":
            factor = (min if keep_aspect_ratio_policy == "not_larger" else max)(factors)
            factors = [factor] * len(over)
            want = tuple(floor(factor * x.shape[a] + 0.5) for a in over)
    else:
        factors = [float(s) for s in numbers(scales, "scales").reshape(-1)]
        want = tuple(floor(x.shape[a] * s) for a, s in zip(over, factors, strict=True))
    regions = numbers(roi, "a region") if roi is not None and np.size(roi) else None
    for i, (axis, scale, result) in enumerate(zip(over, factors, want)):
        size = x.shape[axis]
        part = (0.0, 1.0) if regions is None else (float(regions[i]), float(regions[i + len(over)]))
        at = _positions(coordinate_transformation_mode, size, scale, result, part)
        cropped = coordinate_transformation_mode == "tf_crop_and_resize"
        if result == size and (at == np.arange(size)).all():
            continue
        shape = [-1 if a == axis else 1 for a in range(x.ndim)]
        if mode == "nearest":
            places = np.clip(ROUNDED[nearest_mode](at), 0, size - 1).astype(np.int32)
            y = jnp.take(x, places, axis)
        else:
            kind = "linear" if mode == "linear" else "cubic"
            places, weights = _taps(
                at, kind, scale, cubic_coeff_a, bool(antialias), size, bool(exclude_outside)
            )
            wide = x.astype("float32") if x.dtype.kind in "iu" or x.dtype.itemsize < 4 else x
            y = jnp.zeros((), wide.dtype)
            for t in range(places.shape[1]):
                factor = weights[:, t].astype(wide.dtype).reshape(shape)
                y = y + jnp.take(wide, places[:, t], axis) * factor
        if cropped:
            outside = ((at < 0) | (at > size - 1)).reshape(shape)
            y = jnp.where(outside, like(y, extrapolation_value), y)
        x = y if mode == "nearest" or y.dtype == x.dtype else _back(y, x.dtype)
    return x


def _back(y: Value, dtype: Any) -> Value:
    """Samples in the dtype of the elements: integers are rounded toward zero."""
    return y.astype(dtype)


def Upsample(
    x: Value, given: Value = None, mode: str = "nearest", scales: Sequence[float] | None = None
) -> Value:
    """Larger images, as in versions before 10."""
    factors = given if given is not None else np.array(scales)
    return Resize(
        x,
        None,
        factors,
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def _reflected(x: Value, low: float, high: float) -> Value:
    """Positions mirrored at both ends until they lie between them."""
    span = high - low
    if span <= 0:
        return jnp.zeros_like(x)
    folded = jnp.mod(jnp.abs(x - low), 2 * span)
    return low + jnp.minimum(folded, 2 * span - folded)


def sampled(
    x: Value, at: Sequence[Value], mode: str, padding: str, align_corners: bool, lead: int = 2
) -> Value:
    """Elements of images at positions, one array of which there is for each axis of space.

    Args:
        x: (batch, channels, *space).
        at: positions (batch, *shape) in elements, for each axis of space.

    Returns:
        (batch, channels, *shape).
    """
    space = x.shape[lead:]
    ends = [(0.0, n - 1.0) if align_corners else (-0.5, n - 0.5) for n in space]
    if padding == "border":
        at = [jnp.clip(p, 0, n - 1) for p, n in zip(at, space)]
    elif padding == "reflection":
        at = [_reflected(p, *end) for p, end in zip(at, ends)]
        at = [jnp.clip(p, 0, n - 1) for p, n in zip(at, space)] if mode != "cubic" else at
    taps = []
    for p in at:
        if mode == "nearest":
            taps.append([(jnp.round(p), None)])
        elif mode == "linear":
            first = jnp.floor(p)
            taps.append([(first, 1 - (p - first)), (first + 1, p - first)])
        else:
            first = jnp.floor(p)
            taps.append([(first + s, _cubic(p - first - s, -0.75, jnp)) for s in (-1, 0, 1, 2)])
    rows = jnp.moveaxis(x, 1, -1)
    batch = np.arange(x.shape[0]).reshape(-1, *[1] * (at[0].ndim - 1))
    total: Value = 0
    for corner in product(*taps):
        places = [place for place, _ in corner]
        if padding == "reflection" and mode == "cubic":
            places = [_reflected(p, *end) for p, end in zip(places, ends)]
        index = [
            jnp.clip(jnp.nan_to_num(p), 0, n - 1).astype("int32") for p, n in zip(places, space)
        ]
        value = rows[(batch, *index)]
        weight: Value = 1
        if padding == "zeros":
            for p, n in zip(places, space):
                weight = weight * ((p >= 0) & (p <= n - 1)).astype(x.dtype)
        for _, w in corner:
            weight = weight if w is None else weight * w
        total = total + value * (
            weight[..., None].astype(x.dtype) if np.ndim(weight) else like(x, 1)
        )
    return jnp.moveaxis(total, -1, 1)


def GridSample(
    x: Value, grid: Value, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Value:
    """Samples of images at points between -1 and 1."""
    x, grid = jnp.asarray(x), jnp.asarray(grid)
    space = x.shape[2:]
    at = []
    for axis, n in enumerate(space):  # the last coordinate is that of the first axis of space
        p = grid[..., len(space) - 1 - axis]
        at.append((p + 1) / 2 * (n - 1) if align_corners else ((p + 1) * n - 1) / 2)
    kind = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return sampled(x, at, kind, padding_mode, bool(align_corners))


def AffineGrid(theta: Value, size: Value, align_corners: int = 0) -> Value:
    """The points at which `GridSample` samples an affine transform."""
    space = integers(size, "a size")[2:]
    theta = jnp.asarray(theta)
    lines = [
        np.linspace(-1, 1, n) if align_corners else (2 * np.arange(n) + 1) / n - 1 for n in space
    ]
    points = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(space)], -1)
    return jnp.einsum("...j,nij->n...i", jnp.asarray(points.astype(theta.dtype)), theta)


def RoiAlign(
    x: Value,
    rois: Value,
    batch: Value,
    coordinate_transformation_mode: str | None = None,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    opset: int = 16,
) -> Value:
    """Samples of regions of images."""
    x, boxes = jnp.asarray(x), jnp.asarray(rois)
    default = "half_pixel" if opset >= 16 else "output_half_pixel"
    half = (coordinate_transformation_mode or default) == "half_pixel"
    sizes = (output_height, output_width)
    first = boxes[:, 1::-1] * like(x, spatial_scale) - (0.5 if half else 0)
    last = boxes[:, 3:1:-1] * like(x, spatial_scale) - (0.5 if half else 0)
    span = last - first if half else jnp.maximum(last - first, 1)
    bins = span / np.array(sizes, x.dtype)
    rows = []
    known_bins = None if sampling_ratio else numbers(bins, "the sizes of its regions")
    for i in range(boxes.shape[0]):
        counts = [sampling_ratio] * 2 if known_bins is None else [ceil(b) for b in known_bins[i]]
        lines = []
        for axis in (0, 1):
            n, count = x.shape[2 + axis], max(counts[axis], 1)
            offsets = (np.arange(sizes[axis])[:, None] + (np.arange(count) + 0.5) / count).reshape(
                -1
            )
            lines.append((first[i, axis] + bins[i, axis] * offsets.astype(x.dtype), n))
        inside = [(p >= -1) & (p <= n) for p, n in lines]
        grid = jnp.meshgrid(*[jnp.clip(p, 0, n - 1) for p, n in lines], indexing="ij")
        image = jnp.take(x, jnp.asarray(batch)[i].astype("int32"), 0)[None]
        values = sampled(image, [g[None] for g in grid], "linear", "border", True)[0]
        values = jnp.where(inside[0][:, None] & inside[1], values, like(x, 0))
        shape = (x.shape[1], sizes[0], -1, sizes[1], lines[1][0].shape[0] // sizes[1])
        blocks = values.reshape(shape)
        rows.append(blocks.mean((2, 4)) if mode == "avg" else _largest(image, grid, inside, shape))
    return jnp.stack(rows) if rows else jnp.zeros((0, x.shape[1], *sizes), x.dtype)


def _largest(image: Value, grid: Sequence[Value], inside: Sequence[Value], shape: Any) -> Value:
    """The largest of the four products of element and weight of each sample, and of its samples."""
    corners = []
    for steps in product((0, 1), repeat=2):
        weight: Value = 1
        index = []
        for p, step, n in zip(grid, steps, image.shape[2:]):
            low = jnp.floor(p)
            weight = weight * (p - low if step else 1 - (p - low))
            index.append(jnp.clip(low + step, 0, n - 1).astype("int32"))
        corners.append(image[0][:, index[0], index[1]] * weight)
    best = jnp.stack(corners).max(0)
    best = jnp.where(inside[0][:, None] & inside[1], best, like(image, 0))
    return best.reshape(shape).max((2, 4))


def NonMaxSuppression(
    boxes: Value,
    scores: Value,
    most: Value = None,
    iou: Value = None,
    least: Value = None,
    center_point_box: int = 0,
) -> Value:
    """Boxes by their scores, without those that overlap a better one."""
    corners, values = numbers(boxes, "its boxes"), numbers(scores, "its scores")
    limit = 0 if most is None else integers(most, "a number")[0]
    overlap = 0.0 if iou is None else float(numbers(iou, "a bound").reshape(-1)[0])
    lowest = None if least is None else float(numbers(least, "a bound").reshape(-1)[0])
    if center_point_box:
        centre, half = corners[..., :2], corners[..., 2:] / 2
        corners = np.concatenate([centre - half, centre + half], -1)
    a, b = corners[..., :2], corners[..., 2:]
    low, high = np.minimum(a, b), np.maximum(a, b)
    chosen = []
    for image, kind in product(range(values.shape[0]), range(values.shape[1])):
        row = values[image, kind]
        order = np.argsort(-row, kind="stable")
        order = order if lowest is None else order[row[order] > lowest]
        area = (high[image] - low[image]).prod(-1)
        count = 0
        while len(order) and count < limit:
            best, order = order[0], order[1:]
            chosen.append((image, kind, best))
            count += 1
            sides = np.minimum(high[image, best], high[image, order]) - np.maximum(
                low[image, best], low[image, order]
            )
            common = np.clip(sides, 0, None).prod(-1)
            order = order[common <= overlap * (area[best] + area[order] - common)]
    return np.array(chosen, np.int64).reshape(-1, 3)


def DeformConv(
    x: Value,
    w: Value,
    offset: Value,
    bias: Value = None,
    mask: Value = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    offset_group: int = 1,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Value:
    """A convolution whose window is moved element by element."""
    x, w, offset = map(jnp.asarray, (x, w, offset))
    rank = x.ndim - 2
    window = w.shape[2:]
    dilations, strides = dilations or (1,) * rank, strides or (1,) * rank
    pads = pads or (0,) * 2 * rank
    n, places = x.shape[0], offset.shape[2:]
    each = int(np.prod(window))
    moves = offset.reshape(n, offset_group, each, rank, *places)
    kept = None if mask is None else jnp.asarray(mask).reshape(n, offset_group, each, *places)
    own = x.shape[1] // offset_group
    columns = []
    for g in range(offset_group):
        image = x[:, g * own : (g + 1) * own]
        taps = []
        for k, place in enumerate(np.ndindex(*window)):
            at = []
            for axis in range(rank):
                line = (
                    np.arange(places[axis]) * strides[axis]
                    - pads[axis]
                    + place[axis] * dilations[axis]
                )
                shape = [-1 if a == axis else 1 for a in range(rank)]
                at.append(moves[:, g, k, axis] + line.reshape(shape).astype(x.dtype))
            value = sampled(image, at, "linear", "zeros", True)
            taps.append(value if kept is None else value * kept[:, g, k][:, None])
        columns.append(jnp.stack(taps, 2))
    values = jnp.concatenate(columns, 1)  # (batch, channels, window, *places)
    parts = values.reshape(n, group, x.shape[1] // group, each, *places)
    weights = w.reshape(group, w.shape[0] // group, w.shape[1], each)
    y = jnp.einsum("ngck...,gock->ngo...", parts, weights).reshape(n, w.shape[0], *places)
    return y if bias is None else y + jnp.asarray(bias).reshape(-1, *[1] * rank)


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    "Resize": Resize, "Upsample": Upsample, "GridSample": GridSample, "AffineGrid": AffineGrid,
    "RoiAlign": RoiAlign, "NonMaxSuppression": NonMaxSuppression, "DeformConv": DeformConv,
}
# fmt: on
