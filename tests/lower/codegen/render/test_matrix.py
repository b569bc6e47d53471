"""Matrix units as LLVM IR: compiled, and run where this machine has AMX."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.graphs import Value, jaxpr, run_compiled, run_oracle
from tests.lower.loops.test_tensorize import AMX, product
from tfn.dtypes import BFLOAT16, DType, int8, uint8
from tfn.hw.compile.child import ChildCompiler
from tfn.hw.cpu.target import host
from tfn.lower.pipeline import instructions, lower
from tfn.lower.program import Kernel
from tfn.lower.target.matrix_units import matrix_units
from tfn.trace import matrix_tiles
from tfn.trace.op import Op
from tfn.trace.uop import UOp

RANDOM = np.random.default_rng(0)
needs_unit = pytest.mark.skipif(
    not any(u.has_tiles for u in matrix_units(host(), BFLOAT16)),
    reason="there are no tile registers",
)


def kernel_of(u: UOp) -> Kernel:
    return lower(jaxpr([u]), AMX).kernels[-1]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (BFLOAT16, "tdpbf16ps"),
        (int8.dtype, "tdpbssd"),
        (uint8.dtype, "tdpbuud"),
    ],
    ids=str,
)
def test_llvm_compiles_tile_instructions(kind: DType, name: str) -> None:
    """On any machine: the child process compiles for another target."""
    kernel = kernel_of(product(40, 70, 50, kind))
    assert f"llvm.x86.{name}.internal" in kernel.text and "alloca" in kernel.text
    assert ChildCompiler().compile(kernel.text, AMX)


@needs_unit
@pytest.mark.parametrize("sizes", [(16, 32, 16), (40, 70, 33), (129, 64, 100), (31, 1000, 47)])
def test_amx_agrees_with_the_oracle_to_the_last_bit(sizes: tuple[int, int, int]) -> None:
    u = product(*sizes)
    values = [RANDOM.standard_normal(s.shape).astype(BFLOAT16) for s in u.src]
    (got,) = run_compiled([u], values, host())
    program = lower(jaxpr([u]), host())
    assert any(i.op is Op.MMA for i in instructions(program.kernels[-1], host()))
    (want,) = run_oracle([u], values)
    assert np.abs(got - want).max() <= 1e-6 * np.sqrt(sizes[1]) * np.abs(want).max()
    assert np.array_equal(got, _block_by_block(*values))


def _block_by_block(a: Value, b: Value) -> Value:
    """The product as the unit computes it, of operands padded with zeros."""
    (rows, depth), columns = a.shape, b.shape[1]
    x = np.pad(a, ((0, -rows % 16), (0, -depth % 32)))
    y = np.pad(b, ((0, -depth % 32), (0, -columns % 16)))
    out = np.zeros((x.shape[0], y.shape[1]), np.float32)
    for i, j, k in np.ndindex(x.shape[0] // 16, y.shape[1] // 16, y.shape[0] // 32):
        at = np.s_[16 * i : 16 * i + 16, 16 * j : 16 * j + 16]
        a_block = x[16 * i : 16 * i + 16, 32 * k : 32 * k + 32]
        b_block = y[32 * k : 32 * k + 32, 16 * j : 16 * j + 16]
        b_block = b_block.reshape(16, 2, 16).transpose(0, 2, 1).reshape(16, 32)
        out[at] = matrix_tiles.multiply(out[at], a_block, b_block)
    return out[:rows, :columns]


@needs_unit
def test_nan_inf_and_denormals() -> None:
    u = product(20, 40, 24)
    a, b = (RANDOM.standard_normal(s.shape).astype(BFLOAT16) for s in u.src)
    a[3, 5], a[7, 39], b[:, 11] = np.nan, np.inf, 1e-39
    (got,) = run_compiled([u], [a, b], host())
    want = a.astype(np.float32) @ b.astype(np.float32)
    assert np.isnan(got[3]).all() and not np.isnan(np.delete(got, (3, 7), 0)).any()
    assert np.isinf(got[7, :11]).all() and np.allclose(got[:3], want[:3], atol=1e-4)


@needs_unit
@pytest.mark.parametrize("kind", [int8.dtype, uint8.dtype], ids=str)
def test_int8_products_are_exact(kind: DType) -> None:
    u = product(50, 131, 70, kind)
    values = [
        RANDOM.integers(*((-128, 128) if kind == int8 else (0, 256)), s.shape).astype(kind)
        for s in u.src
    ]
    (got,) = run_compiled([u], values, host())
    assert np.array_equal(got, values[0].astype(np.int32) @ values[1].astype(np.int32))
