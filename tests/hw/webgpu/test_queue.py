"""The WebGPU queue: loops, branches, routines and calls of the host, and kernels it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from tests.hw import device_laws as laws
from tests.hw.webgpu.devices import needs_webgpu, shared
from tests.lower.graphs import assert_close, inputs, jaxpr, p, run_on, run_oracle
from tfn.config import config
from tfn.dtypes import BOOL, FLOAT32, INT32, canonical
from tfn.errors import CompileError, DeviceError
from tfn.hw.commands import record
from tfn.hw.webgpu import driver
from tfn.hw.webgpu.device import webgpu
from tfn.hw.webgpu.queue import WebGpuQueue
from tfn.hw.webgpu.wgsl import MAX_GROUPS
from tfn.lower import pipeline
from tfn.trace import build

pytestmark = needs_webgpu
X, UINT8 = p(0, 4), canonical("uint8")


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)


def test_loops_branches_and_routines() -> None:
    laws.assert_loops_branches_and_routines_run(shared())


def test_a_slice_of_the_arena_is_an_operand_at_an_offset() -> None:
    laws.assert_slices_of_the_arena_are_operands(shared())


def test_a_buffer_of_another_device_is_refused_by_a_program() -> None:
    laws.assert_buffers_of_others_are_refused(shared())


@pytest.mark.parametrize("n", [3, 70])
def test_more_operands_than_buffers_are_packed(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 16 operands, two results among them, an adapter that binds 2 to 8 sees these at once."""
    queue: Any = shared().queue
    total, narrow = p(0, n), p(14, n, dtype=UINT8) + p(15, n, dtype=UINT8)
    for i in range(1, 14):
        total = total * 0.5 + p(i, n)
    program = jaxpr([total, narrow, total * 2.0 + p(1, n)])
    values = inputs([total, narrow])
    want = run_oracle([total, narrow, total * 2.0 + p(1, n)], values)
    for most in (2, 5, 8):
        few = queue.driver.limits | {"max-storage-buffers-per-shader-stage": most}
        other = WebGpuQueue(replace(queue.driver, limits=few), queue.memory)
        for x, y in zip(run_on(replace(shared(), queue=other), program, values), want, strict=True):
            assert_close(x, y, 1e-5, 1e-6, str(most))


def test_launches_that_bind_the_same_buffers_share_their_bindings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue: Any = shared().queue
    made, kind = [], type(queue.driver.device)
    own = kind.create_bind_group
    monkeypatch.setattr(kind, "create_bind_group", lambda *a, **k: made.append(k) or own(*a, **k))
    x = p(0, 1 << 17)
    for _ in range(8):
        x = x * 0.5 - build.broadcast_in_dim(build.add_up(x, (0,)), x.shape, ())
    launches = len(record(pipeline.lower(jaxpr([x]), shared().target)))
    run_on(shared(), jaxpr([x]), [np.zeros(x.shape, np.float32)])
    assert launches >= 8 and len(made) <= 4


def test_a_refused_shader_is_an_error_with_the_words_of_the_driver() -> None:
    queue: Any = shared().queue
    text = '// {"name": "k", "threads": 1, "operands": []}\nno shader'
    with pytest.raises(CompileError, match=r"does not accept a kernel(?s:.*)no shader"):
        queue.pipeline(text, ())


def test_a_lost_device_is_an_error_that_says_so() -> None:
    """Of reads, writes, shaders and programs alike; the process goes on."""
    driver.driver.cache_clear()
    device = webgpu()
    driver.driver.cache_clear()
    memory, queue = cast("Any", device.memory), cast("Any", device.queue)
    program, x = jaxpr([X * 2.0]), np.ones(4, np.float32)
    buffer = memory.copy(x)
    run_on(device, program, [x])
    queue.driver.device.destroy()
    empty = (
        '// {"name": "k", "threads": 1, "operands": []}\n@compute @workgroup_size(1) fn main() {}'
    )
    for use in (
        lambda: run_on(device, program, [x]),
        lambda: memory.copy(x),
        lambda: memory.read(buffer, (4,), FLOAT32),
        lambda: queue.pipeline(empty, ()),
    ):
        with pytest.raises(DeviceError, match="was lost, with all arrays on it"):
            use()
    (y,) = run_on(shared(), program, [x])
    assert y.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@compute @workgroup_size(99999) fn main() {}", "size is out of range"),
        ("var<workgroup> t: array<f32, 999999>;\n%s", "3,999,996 bytes"),
    ],
)
def test_a_shader_that_is_too_large_is_refused(text: str, said: str) -> None:
    queue: Any = shared().queue
    main = "@compute @workgroup_size(1) fn main() { t[0] = 1.0; }"
    head = '// {"name": "k", "threads": 1, "operands": []}\n'
    with pytest.raises(CompileError, match=f"a kernel(?s:.*){said}"):
        queue.pipeline(head + (text % main if "%s" in text else text), ())


def test_more_groups_than_one_axis_can_have() -> None:
    n = MAX_GROUPS + 3
    rows = build.add_up(build.cast(p(0, n, 512, dtype=BOOL), INT32), (1,))
    assert pipeline.lower(jaxpr([rows]), shared().target).kernels[0].tiles == n
    x = np.arange(512) < np.arange(n)[:, None] % 512
    (y,) = run_on(shared(), jaxpr([rows]), [x])
    np.testing.assert_array_equal(y, np.arange(n) % 512)
