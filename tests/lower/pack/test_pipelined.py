"""Pipelined loops: the same bits for any number of iterations, in place too, in fewer packets."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
from tests.covering import in_turn
from tests.lower.pack.loops import FUNCTIONS, TARGETS, compiled
from tfn import numpy as jnp
from tfn.config import config
from tfn.eager import run
from tfn.hw.compile import llvm
from tfn.hw.compile.server import CompileServer
from tfn.hw.cpu.target import named
from tfn.lower import pack, pipeline
from tfn.lower.loops import opt_ops
from tfn.lower.pack import assembly, modulo
from tfn.lower.pack.machine import HEXAGON, MACHINES
from tfn.lower.pack.pipelined import pipelined

needs_qemu = pytest.mark.skipif(
    not shutil.which("qemu-hexagon"), reason="qemu-hexagon is not installed: apt install qemu-user"
)


def int8(*shape: int) -> Any:
    return np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)


def int32(*shape: int) -> Any:
    return np.random.default_rng(1).integers(-999, 999, shape).astype(np.int32)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    # Of one iteration, two, three and many; the last is not whole.
    **{
        f"axpy {n}": (lambda x, y: x * np.int32(3) + y, (int32(n), int32(n)))
        for n in (64, 128, 256, 384, 1000)
    },
    "several": (lambda x, y: (x - y, jnp.where(x > y, x, 7)), (int32(700), int32(700))),
    "relu": (lambda x: jnp.maximum(x, 0), (int8(1500),)),
    "sum": (lambda x: x.sum(), (int32(2000),)),
    "columns": (lambda x: x.max(0) + x.sum(0), (int32(37, 70),)),
    "matmul": (lambda x, y: x @ y, (int32(16, 32), int32(32, 64))),
    "ragged": (lambda x, y: x @ y, (int32(13, 29), int32(29, 65))),
    "int8 matmul": (FUNCTIONS["int8 matmul"][0], (int8(9, 50), int8(50, 70))),
    # A maximum of this round is compared in an earlier stage of the next.
    "argmax": (lambda x: x.argmax(), (int32(1024),)),
    "floats": (lambda x, y: (x * y).sum(), (int32(999).astype("f4"), int32(999).astype("f4"))),
    "index": (lambda x: x * jnp.arange(x.size, dtype="int32"), (int32(640),)),
}

READ = ("axpy 384", "axpy 1000", "several", "relu", "sum", "matmul", "floats", "index")
"""Cases whose loops are pipelined whatever vectors an x86 processor has."""

pytestmark = pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")


def results(case: str, stages: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], int]:
    """Results of a function whose kernels are all pipelined, and how many changed by that."""
    changed = []

    def counted(text: str, architecture: str, stages: int) -> str:
        new = pipelined(text, architecture, stages)
        changed.append(new != text)
        return new

    monkeypatch.setattr(opt_ops, "stages", lambda opts: stages)
    monkeypatch.setattr(pack.pipelined, "pipelined", counted)
    monkeypatch.setattr(pipeline, "_CACHES", [])
    pipeline.forget()
    run.clear_caches()
    function, operands = CASES[case]
    found = tfn.jit(lambda *xs: function(*xs))(*operands)
    # In place: donated operands are overwritten, where a result fits.
    donating = tfn.jit(lambda *xs: function(*xs), donate_argnums=tuple(range(len(operands))))
    found = *tfn.tree.leaves(found), *tfn.tree.leaves(donating(*map(jnp.asarray, operands)))
    monkeypatch.undo()
    pipeline.forget()
    run.clear_caches()
    return [np.asarray(x) for x in found], sum(changed)


@pytest.mark.parametrize("case", in_turn(3, CASES))
def test_pipelining_changes_no_bits(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _ = results(case, 0, monkeypatch)
    changes = 0
    for stages in range(1, opt_ops.MAX_STAGES + 1):
        got, changed = results(case, stages, monkeypatch)
        changes += changed
        for one, two in zip(got, expected, strict=True):
            np.testing.assert_array_equal(one, two)
    x86 = run.device().target.triple.startswith("x86_64")
    assert changes or case not in READ or not x86


@needs_qemu
@pytest.mark.parametrize("case", in_turn(3, CASES))
def test_pipelining_changes_no_bits_on_the_dsp(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.MonkeyPatch.context() as device:
        device.setattr(config, "device", "dsp")
        expected, _ = results(case, 0, monkeypatch)
        got, _ = results(case, 2, monkeypatch)
    for one, two in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, two)


GAINS = {
    "int8 matmul": (39, 2, 30),
    "int8 relu": (15, 3, 11),
    "int16 axpy": (23, 2, 16),
    "int32 axpy": (25, 2, 17),
    "saxpy": (14, 2, 10),
    "float32 dot": (8, 3, 7),
}
"""Packets of an iteration as LLVM makes them; stages, and packets that suffice with them."""


@pytest.mark.parametrize("name", in_turn(3, GAINS))
def test_loops_take_fewer_packets(name: str) -> None:
    before, stages, most = GAINS[name]
    target, server = named("hexagon"), CompileServer()
    ((kernel, text),) = compiled(name, "hexagon")
    (loop,) = assembly.divided(text, "hexagon").loops
    assert before - 2 <= loop.packets <= before + 2
    code = server.assembly(pipelined(kernel.text, "hexagon", stages), target)
    server.close()
    made = next(x for x in assembly.divided(code, "hexagon").loops if x.name.endswith(".kernel"))
    assert made.packets <= most
    assert modulo.emitted_cycles(made, HEXAGON) < modulo.emitted_cycles(loop, HEXAGON)


def test_executions_of_a_pipelined_loop_are_counted() -> None:
    ((kernel, _),) = compiled("int8 matmul", "hexagon")
    text = pipelined(kernel.text, "hexagon", 2)
    before, counts = (assembly.executions(x, kernel.tiles) for x in (kernel.text, text))
    assert counts["loop3.kernel"] * 128 == before["loop3"] * 127
    assert counts["loop3.epilogue"] * 128 == before["loop3"]
    ((kernel, _),) = compiled("int32 axpy", "hexagon")
    counts = assembly.executions(pipelined(kernel.text, "hexagon", 2), kernel.tiles)
    assert counts["loop1.kernel"] == kernel.tiles - 1
    assert counts["body1"] == 0  # for a single iteration


@pytest.mark.parametrize("architecture", MACHINES)
def test_texts_are_well_formed(architecture: str) -> None:
    library, target = llvm.binding(), named(TARGETS[architecture])
    functions = [CASES[name] for name in ("argmax", "several", "matmul", "sum", "axpy 1000")]
    texts = 0
    for function, operands in functions:
        jaxpr = tfn.jit(lambda *xs, f=function: f(*xs)).trace(*operands).jaxpr
        for kernel in pipeline.lower(jaxpr, target).kernels:
            for stages in range(1, opt_ops.MAX_STAGES + 1):
                text = pipelined(kernel.text, architecture, stages)
                texts += text != kernel.text
                library.parse_assembly(text, library.create_context()).verify()
    assert texts > 10


def test_other_architectures_stay_as_they_are() -> None:
    ((kernel, _),) = compiled("saxpy", "x86_64")
    assert pipelined(kernel.text, "riscv64", 2) == kernel.text
    assert pipelined(kernel.text, "x86_64", 2) != kernel.text
