"""The rows of `gpu.py`: inputs of two sizes, and the target of each beside its peers, as data.

The programs are in `gpu_programs.py`, for libraries with JAX's names and for PyTorch.  A small size
has all lengths divided, so that the rows run anywhere, on pocl too, and odd lengths stay odd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rows import MEGA, SIZES, Inputs, dense, digits, normal, normals, whole

SMALL = 64  # lengths are divided by it in the small size
STEPS = 100
GB, TFLOP = 1e9, 1e12

Length = Callable[..., int]
"""A length of the present size, from that of the full one, and the least it may be."""


def full(length: int, least: int = 8) -> int:
    """The length itself."""
    return length


def small(length: int, least: int = 8) -> int:
    """The length divided by `SMALL`: odd if it was."""
    return max(least, length // SMALL + length % 2)


@dataclass(frozen=True)
class Target:
    """The goal of a row.

    Attributes:
        ratio: the least speed over that of `versus`; 0 if it has to be ahead.
        versus: a peer, or "best": the fastest that there is.
        seconds: the most that a call may take.
    """

    ratio: float = 0.0
    versus: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.seconds:
            return f"<= {spelled(self.seconds)}"
        return f">= {self.ratio:g} x {self.versus}" if self.ratio else f"ahead of {self.versus}"

    def met(self, own: float, peers: dict[str, float]) -> bool | None:
        """Whether the time of a call meets it; None where the peer has no time."""
        if self.seconds:
            return own <= self.seconds
        others = peers.values() if self.versus == "best" else [peers.get(self.versus, 0.0)]
        best = min((seconds for seconds in others if seconds), default=0.0)
        if not best:
            return None
        return best / own >= self.ratio if self.ratio else own < best


def spelled(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 1e-6:.3g} us"


AHEAD = Target(versus="best")
EVEN = Target(0.97, "torch")
PRODUCT = Target(0.95, "torch")


@dataclass(frozen=True)
class Row:
    """A program.

    Attributes:
        inputs: of a size.
        target: its goal.
        work: the bytes or operations that a call cannot do without, in `unit`.
        dtype: of the floats among its inputs.
        carried: how many results become its first inputs, and replace them, in the next call.
        tolerance: of the largest result, between two devices or libraries.
    """

    inputs: Callable[[Length], Inputs]
    target: Target
    work: float = 0.0
    unit: str = "GB"
    dtype: str = "float32"
    carried: int = 0
    tolerance: float = 2e-3


def arrays(**shapes: tuple[int, ...]) -> Callable[[Length], Inputs]:
    """Normal numbers, of lengths that the size divides."""
    return lambda n: normals(**{k: tuple(n(d) for d in shape) for k, shape in shapes.items()})()


def product(size: int, dtype: str, target: Target = PRODUCT, tolerance: float = 2e-3) -> Row:
    """A product of two square matrices."""
    shapes = arrays(a=(size, size), b=(size, size))
    return Row(shapes, target, 2 * size**3 / TFLOP, "TFLOP", dtype, tolerance=tolerance)


IMAGES, SIDE, CHANNELS = 64, 28, 128
CONVOLUTION_WORK = 2 * 9 * IMAGES * SIDE**2 * CHANNELS**2 / TFLOP


def images(n: Length) -> Inputs:
    """Channels last, and windows of 3 x 3."""
    x = n(IMAGES, 2), n(SIDE, 7), n(SIDE, 7), n(CHANNELS, 16)
    return {"x": normal(0, *x), "w": normal(1, 3, 3, x[3], x[3], scale=0.03)}


def images_grad(n: Length) -> Inputs:
    """The same, and the cotangent."""
    given = images(n)
    return {**given, "ct": normal(2, *given["x"].shape)}


HEADS, TOKENS = 64, 2048


def attention(width: int, count: int, target: Target) -> Row:
    """Queries, keys, values, and the cotangent if there are four."""
    names, work = "qkvc"[:count], 4 * HEADS * TOKENS**2 * width / TFLOP
    shape: Callable[[Length], tuple[int, ...]] = lambda n: (n(HEADS, 2), n(TOKENS, 32), width)
    return Row(
        lambda n: {k: normal(i, *shape(n)) for i, k in enumerate(names)},
        target,
        work * (1 if count == 3 else 3.5),
        "TFLOP",
        "bfloat16",
        tolerance=2e-2,
    )


def mlp(n: Length, batches: tuple[int, ...] = ()) -> Inputs:
    """State of Adam for dense layers, and a batch like MNIST's, or several."""
    sizes = [n(size, 10) for size in SIZES]
    count, layers = n(128, 16), dense(10, *sizes)
    given = digits(count * (batches or (1,))[0])
    x, y = given["x"][:, : sizes[0]], given["y"]
    return {
        "state": (layers, zeros(layers), zeros(layers), np.float32(0)),
        "x": x.reshape(*batches, count, sizes[0]),
        "y": y.reshape(*batches, count),
    }


def zeros(value: object) -> object:
    """Zeros of the same shapes."""
    if isinstance(value, dict):
        return {key: zeros(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(zeros(part) for part in value)
    return np.zeros_like(value)


GPT2 = {"layers": 12, "width": 768, "heads": 12, "words": 50304, "length": 1024, "texts": 8}
GPT2_SMALL = {"layers": 1, "width": 32, "heads": 2, "words": 96, "length": 32, "texts": 2}


def gpt2_sizes(n: Length) -> dict[str, int]:
    """Of GPT-2 small, or of one that runs anywhere."""
    return GPT2 if n is full else GPT2_SMALL


def gpt2_weights(n: Length) -> Inputs:
    """The embedding is the output layer too."""
    s = gpt2_sizes(n)
    d = s["width"]
    norm = np.ones(d, np.float32), np.zeros(d, np.float32)
    shapes = {"qkv": (d, 3 * d), "out": (d, d), "up": (d, 4 * d), "down": (4 * d, d)}
    return {
        "words": normal(40, s["words"], d, scale=0.02),
        "places": normal(41, s["length"], d, scale=0.02),
        "norm": norm,
        "blocks": [
            {"norm1": norm, "norm2": norm}
            | {
                k: normal(50 + 10 * i + j, *v, scale=0.02)
                for j, (k, v) in enumerate(shapes.items())
            }
            for i in range(s["layers"])
        ],
    }


def gpt2(n: Length) -> Inputs:
    """State of Adam for GPT-2, and texts."""
    s, weights = gpt2_sizes(n), gpt2_weights(n)
    state = weights, zeros(weights), zeros(weights), np.float32(0)
    return {"state": state, "tokens": whole(7, s["words"], s["texts"], s["length"] + 1)}


def decoding(n: Length) -> Inputs:
    """Keys and values of all layers, the last token and its place; then the weights."""
    s = gpt2_sizes(n)
    head = s["width"] // s["heads"]
    shape = s["layers"], 2, s["heads"], s["length"], head
    state = normal(8, *shape, scale=0.5), np.int32(17), np.int32(s["length"] // 2)
    return {"state": state, "weights": gpt2_weights(n)}


def ids(bound: int, count: int, **more: tuple[int, ...]) -> Callable[[Length], Inputs]:
    """Integers below a bound, unsorted; then normal numbers."""
    return lambda n: {
        **{k: normal(i, *(n(d) for d in shape)) for i, (k, shape) in enumerate(more.items())},
        "ids": whole(9, n(bound), n(count)),
    }


def bodies(n: Length) -> Inputs:
    """Places, speeds and masses."""
    count = n(16384, 64)
    mass = np.abs(normal(2, count)) + np.float32(0.1)
    return {"x": normal(0, count, 3), "v": normal(1, count, 3), "m": mass}


N, BIG = 4096, 64 * MEGA
WORDS = 50257
MANY = 16 * MEGA
# fmt: off
ROWS: dict[str, Row] = {
    "copy":          Row(arrays(x=(BIG,)), EVEN, 8 * BIG / GB),
    "axpy":          Row(arrays(x=(BIG,), y=(BIG,)), EVEN, 12 * BIG / GB),
    "gelu":          Row(arrays(x=(BIG,)), EVEN, 8 * BIG / GB),
    "sum":           Row(arrays(x=(BIG,)), EVEN, 4 * BIG / GB),
    "column_sums":   Row(arrays(x=(N, N)), EVEN, 4 * N * N / GB),
    "transpose":     Row(arrays(x=(2 * N, 2 * N)), EVEN, 32 * N * N / GB, tolerance=0),
    "softmax":       Row(arrays(x=(N, N)), EVEN, 8 * N * N / GB),
    "softmax_grad":  Row(arrays(x=(N, N), ct=(N, N)), AHEAD, 12 * N * N / GB),
    "layernorm":     Row(arrays(x=(2 * N, N), g=(N,), b=(N,)), EVEN, 16 * N * N / GB),
    "layernorm_grad": Row(arrays(x=(2 * N, N), g=(N,), b=(N,), ct=(2 * N, N)), AHEAD,
                          24 * N * N / GB),
    "matmul_f32_4096":  product(4096, "float32", tolerance=1e-4),
    "matmul_tf32_4096": product(4096, "float32"),
    "matmul_tf32_8192": product(8192, "float32"),
    "matmul_tf32_4097": product(4097, "float32", Target(2.5, "torch")),
    "matmul_bf16_4096": product(4096, "bfloat16", tolerance=1e-2),
    "matmul_bf16_8192": product(8192, "bfloat16", tolerance=1e-2),
    "matmul_bf16_4097": product(4097, "bfloat16", Target(2.5, "torch"), tolerance=1e-2),
    "matmul_bias_gelu": Row(arrays(x=(2 * N, 2048), w=(2048, 2 * N), b=(2 * N,)),
                            Target(1.1, "torch"), 2 * 2048 * (2 * N)**2 / TFLOP, "TFLOP",
                            "bfloat16", tolerance=2e-2),
    "conv":          Row(images, Target(1.0, "torch"), CONVOLUTION_WORK, "TFLOP", "bfloat16",
                         tolerance=2e-2),
    "conv_grad":     Row(images_grad, Target(0.9, "torch"), 2 * CONVOLUTION_WORK, "TFLOP",
                         "bfloat16", tolerance=2e-2),
    **{
        f"attention_{how}_{width}{'_grad' if count == 4 else ''}": attention(width, count, target)
        for how in ("plain", "nn")
        for width, count, target in (
            (64, 3, Target(1.0, "torch")), (128, 3, Target(0.8, "torch")),
            (64, 4, Target(0.7, "torch")), (128, 4, Target(0.7, "torch")),
        )
    },
    "tiny":          Row(arrays(x=(8,)), Target(seconds=5e-6), 1, "call"),
    "chain20":       Row(lambda n: {"x": normal(0, 1024)}, Target(seconds=25e-6), 20, "step"),
    "mlp_step":      Row(mlp, Target(seconds=60e-6), 1, "step", carried=1, tolerance=1e-2),
    "mlp_scan100":   Row(lambda n: mlp(n, (STEPS,)), Target(seconds=3e-3), STEPS, "step",
                         carried=1, tolerance=2e-2),
    "gpt2_step":     Row(gpt2, Target(seconds=20e-3), 1, "step", carried=1, tolerance=2e-2),
    "gpt2_decode":   Row(decoding, Target(seconds=0.45e-3), 1, "token", "bfloat16", carried=1,
                         tolerance=5e-2),
    "sort":          Row(arrays(x=(MANY,)), AHEAD, MANY / 1e9, "G keys", tolerance=0),
    "histogram":     Row(ids(1024, MANY), AHEAD, MANY / 1e9, "G ids", tolerance=0),
    "topk":          Row(arrays(x=(1024, WORDS)), AHEAD, 4 * 1024 * WORDS / GB, tolerance=0),
    "scatter_add":   Row(ids(MEGA, MEGA, table=(MEGA, 64), updates=(MEGA, 64)), AHEAD,
                         12 * 64 * MEGA / GB),
    "cumsum":        Row(arrays(x=(BIG,)), AHEAD, 8 * BIG / GB),
    "embed_grad":    Row(ids(WORDS, 32768, table=(WORDS, 768), ct=(32768, 768)), AHEAD,
                         4 * 768 * (WORDS + 32768) / GB),
    "nbody":         Row(bodies, AHEAD, 16384**2 / 1e9, "G pairs"),
}
"""Sizes are those at which the peers were measured; figures of an H100 stand in the targets."""

COLD: dict[str, Target] = {
    "process_first_result": Target(seconds=0.6),
    "process_first_mlp_step": Target(seconds=1.0),
    "process_first_mlp_step_from_disk": Target(seconds=0.5),
}
"""Fresh processes: from their start to the end of the first call."""

COMPILE: dict[str, Target] = {
    "compile_simple": Target(seconds=15e-3),
    "compile_matmul": Target(seconds=60e-3),
}
"""A kernel from LLVM IR to PTX, on one core of a processor: no GPU is needed."""
# fmt: on
