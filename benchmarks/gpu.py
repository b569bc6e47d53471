"""Speed on a GPU: plain array code on the device cuda, beside torch where it is installed.

    python benchmarks/gpu.py                      all rows, a table
    python benchmarks/gpu.py --only softmax,mm    some rows, by the beginning of their names
    python benchmarks/gpu.py --device opencl      another device

A time is the least of several rounds; a round runs a function until it has taken 20 ms, and waits
once at its end.  Without a GPU it says so, and measures nothing.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import tfn
from tfn import lax, nn
from tfn import numpy as jnp
from tfn.config import config
from tfn.errors import DeviceError

ROUNDS = 5
ROUND_SECONDS = 0.02
CHAIN = 20
SCAN = 100


@dataclass(frozen=True)
class Row:
    """A function of arrays, and the bytes or operations that it cannot do without.

    Attributes:
        torch: the same in torch, of the module and the arguments; None where there is none.
    """

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    work: float
    unit: str
    dtype: str = "float32"
    torch: Callable[..., Any] | None = None


def gelu(x: Any) -> Any:
    """The tanh form."""
    return nn.gelu(x)


def attention(q: Any, k: Any, v: Any) -> Any:
    """Plain operations: nothing says that this is attention."""
    scores = jnp.einsum("hqd,hkd->hqk", q, k) / math.sqrt(q.shape[-1])
    return jnp.einsum("hqk,hkd->hqd", nn.softmax(scores), v)


def mlp_step(a: Any, b: Any, x: Any, y: Any) -> Any:
    """A step of gradient descent."""

    def loss(a: Any, b: Any) -> Any:
        return ((jnp.tanh(x @ a) @ b - y) ** 2).mean()

    da, db = tfn.grad(loss, (0, 1))(a, b)
    return a - 0.1 * da, b - 0.1 * db


def chain(x: Any) -> Any:
    """Sums that no kernel can fuse with what follows."""
    for _ in range(CHAIN):
        x = x * 0.5 + x.sum()
    return x


def scan(a: Any, b: Any, x: Any, y: Any) -> Any:
    """A hundred steps in one program."""
    return lax.scan(lambda w, _: (mlp_step(*w, x, y), None), (a, b), None, length=SCAN)[0]


N, BIG = 4096, 1 << 26
MLP = ((256, 256), (256, 16), (128, 256), (128, 16))
GB, TFLOP = 1e9, 1e12
# fmt: off
ROWS: dict[str, Row] = {
    "axpy":        Row(lambda x, y: x * 2 + y, ((BIG,), (BIG,)), 12 * BIG / GB, "GB",
                       torch=lambda t, x, y: t.add(y, x, alpha=2)),
    "gelu":        Row(gelu, ((BIG,),), 8 * BIG / GB, "GB",
                       torch=lambda t, x: t.nn.functional.gelu(x, approximate="tanh")),
    "sum":         Row(lambda x: x.sum(), ((BIG,),), 4 * BIG / GB, "GB",
                       torch=lambda t, x: x.sum()),
    "column_sums": Row(lambda x: x.sum(0), ((N, N),), 4 * N * N / GB, "GB",
                       torch=lambda t, x: x.sum(0)),
    "softmax":     Row(nn.softmax, ((N, N),), 8 * N * N / GB, "GB",
                       torch=lambda t, x: x.softmax(-1)),
    "softmax_grad": Row(tfn.grad(lambda x, y: (nn.softmax(x) * y).sum()), ((N, N), (N, N)),
                        12 * N * N / GB, "GB"),
    "transpose":   Row(lambda x: x.T + 0, ((N, N),), 8 * N * N / GB, "GB",
                       torch=lambda t, x: x.T.contiguous()),
    "mm_f32":      Row(jnp.matmul, ((N, N), (N, N)), 2 * N**3 / TFLOP, "TFLOP",
                       torch=lambda t, a, b: a @ b),
    "mm_bf16":     Row(jnp.matmul, ((N, N), (N, N)), 2 * N**3 / TFLOP, "TFLOP", "bfloat16",
                       torch=lambda t, a, b: a @ b),
    "mm_bias_gelu": Row(lambda a, b, c: gelu(a @ b + c), ((N, N), (N, N), (N,)),
                        2 * N**3 / TFLOP, "TFLOP", "bfloat16",
                        torch=lambda t, a, b, c: t.nn.functional.gelu(a @ b + c)),
    "attention":   Row(attention, ((16, 2048, 64),) * 3, 4 * 16 * 2048**2 * 64 / TFLOP, "TFLOP",
                       "bfloat16",
                       torch=lambda t, *q: t.nn.functional.scaled_dot_product_attention(*q)),
    "tiny":        Row(lambda x: x + 1, ((8,),), 1, "call", torch=lambda t, x: x + 1),
    "chain20":     Row(chain, ((1024,),), 1, "call"),
    "mlp_step":    Row(mlp_step, MLP, 1, "step"),
    "scan100":     Row(scan, MLP, SCAN, "step"),
}
# fmt: on


def seconds(run: Callable[[], Any], wait: Callable[[Any], None]) -> float:
    """The time of a call: the least mean of several rounds."""
    wait(run())
    best = math.inf
    for _ in range(ROUNDS):
        begin, calls = time.perf_counter(), 0
        while time.perf_counter() - begin < ROUND_SECONDS:
            result, calls = run(), calls + 1
        wait(result)
        best = min(best, (time.perf_counter() - begin) / calls)
    return best


def measured(row: Row) -> float:
    """Seconds of a row in tfn, on the default device."""
    rng = np.random.default_rng(0)
    arrays = [
        jnp.array(rng.standard_normal(shape, np.float32)).astype(row.dtype) for shape in row.shapes
    ]
    function = tfn.jit(row.function)
    return seconds(lambda: function(*arrays), tfn.block_until_ready)


def measured_by_torch(row: Row) -> float | None:
    """Seconds of a row in torch; None if there is no such row, no torch, or no GPU for it."""
    try:
        import torch
    except ImportError:
        return None
    if row.torch is None or not torch.cuda.is_available():
        return None
    kind = getattr(torch, row.dtype)
    arrays = [torch.randn(shape, device="cuda", dtype=kind) for shape in row.shapes]
    function = row.torch
    return seconds(lambda: function(torch, *arrays), lambda _: torch.cuda.synchronize())


def table(names: Sequence[str]) -> Table:
    """The rows that begin with one of the names, measured."""
    out = Table("row", "us", "per second", "torch, us", "torch's time over tfn's")
    for name, row in ROWS.items():
        if names and not any(name.startswith(begin) for begin in names):
            continue
        own, other = measured(row), measured_by_torch(row)
        beside = ("-", "-") if other is None else (f"{1e6 * other:,.1f}", f"{other / own:.2f}")
        out.add_row(name, f"{1e6 * own:,.1f}", f"{row.work / own:,.1f} {row.unit}", *beside)
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print; 1 if there is no device."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="names of rows, or their beginnings")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args(arguments)
    console, config.device = Console(), options.device
    try:
        tfn.devices(options.device)
    except DeviceError as error:
        console.print(f"Nothing is measured.\n{error}", markup=False)
        return 1
    console.print(table([name for name in options.only.split(",") if name]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
