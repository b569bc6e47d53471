"""cuSOLVER: routines of LAPACK in the stream of programs, and on the host without it.

The library is simulated: a function is LAPACK's, on the memory of the simulated GPU, when its
stream comes to it.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg.lapack as lapack

import tfn
import tfn.numpy as tnp
from tests.hw.cuda.devices import default, device_of
from tests.hw.cuda.simulator import SimulatedCuda
from tfn.config import config
from tfn.errors import DeviceError
from tfn.hw.cuda import solver
from tfn.hw.cuda.solver import ROWS
from tfn.numpy.linalg.lapack import CALLS

RNG = np.random.default_rng(0)


class SimulatedSolver:
    """The functions of cuSOLVER by name.

    Attributes:
        calls: how often each was called, without its letter.
        fails: the function that gives an error.
    """

    def __init__(self, gpu: SimulatedCuda) -> None:
        self.gpu, self.calls, self.fails, self.stream = gpu, Counter[str](), "", None

    def __call__(self, name: str) -> Any:
        step = name.removeprefix("cusolverDn")
        if step in ("Create", "SetStream"):
            return getattr(self, step)
        letter, step = step[0], step[1:]

        def function(handle: Any, *arguments: Any) -> int:
            assert handle.value == 77 and self.stream is not None
            self.calls[step] += 1
            if step == self.fails:
                return 7
            if step.endswith("_bufferSize"):
                arguments[-1]._obj.value = 1000
                return 0
            values = [x.value for x in arguments]
            work = lambda: getattr(self, step)(letter.lower(), *values)
            self.gpu._at(self.stream).work.append(work)
            return 0

        return function

    def Create(self, out: Any) -> int:
        out._obj.value = 77
        return 0

    def SetStream(self, handle: Any, stream: Any) -> int:
        self.stream = stream
        return 0

    @staticmethod
    def view(letter: str, address: int, line: int, columns: int) -> Any:
        """A matrix by columns at an address."""
        kind = np.dtype({"s": "f4", "d": "f8", "i": "i4"}[letter])
        memory = (ctypes.c_char * (line * columns * kind.itemsize)).from_address(address)
        return np.frombuffer(memory, kind).reshape(columns, line).T

    def potrf(self, t: str, uplo: int, n: int, a: int, line: int, *rest: int) -> None:
        assert uplo == 0
        x, (work, size, info) = self.view(t, a, line, n), rest
        assert size == 1000
        self.view(t, work, 1000, 1)[...] = 7
        factor, code = getattr(lapack, f"{t}potrf")(x, lower=1, clean=0)
        x[...] = factor
        self.view("i", info, 1, 1)[...] = code

    def getrf(self, t: str, m: int, n: int, a: int, line: int, *rest: int) -> None:
        x, (_, pivots, info) = self.view(t, a, line, n), rest
        packed, order, code = getattr(lapack, f"{t}getrf")(x)
        x[...] = packed
        self.view("i", pivots, 1, min(m, n))[0] = order + 1
        self.view("i", info, 1, 1)[...] = code

    def getrs(self, t: str, way: int, n: int, count: int, a: int, line: int, *rest: int) -> None:
        pivots, b, line_of_b, info = rest
        x, order = self.view(t, b, line_of_b, count), self.view("i", pivots, 1, n)[0] - 1
        solution, code = getattr(lapack, f"{t}getrs")(self.view(t, a, line, n), order, x, way)
        x[...] = solution
        self.view("i", info, 1, 1)[...] = code

    def geqrf(self, t: str, m: int, n: int, a: int, line: int, *rest: int) -> None:
        x, (scales, _, _, info) = self.view(t, a, line, n), rest
        packed, tau, _, code = getattr(lapack, f"{t}geqrf")(x)
        x[...] = packed
        self.view(t, scales, 1, min(m, n))[0] = tau
        self.view("i", info, 1, 1)[...] = code

    def orgqr(self, t: str, m: int, n: int, k: int, a: int, line: int, *rest: int) -> None:
        x, (scales, _, _, info) = self.view(t, a, line, n), rest
        q, _, code = getattr(lapack, f"{t}orgqr")(x, self.view(t, scales, 1, k)[0])
        x[...] = q
        self.view("i", info, 1, 1)[...] = code

    def syevd(self, t: str, job: int, uplo: int, n: int, a: int, line: int, *rest: int) -> None:
        x, (values, _, _, info) = self.view(t, a, line, n), rest
        w, v, code = getattr(lapack, f"{t}syevd")(x, compute_v=job, lower=1)
        self.view(t, values, 1, n)[0] = w
        x[...] = v if job else 7
        self.view("i", info, 1, 1)[...] = code

    def gesvd(
        self, t: str, first: bytes, second: bytes, m: int, n: int, a: int, line: int, *rest: int
    ) -> None:
        s, u, line_of_u, v, line_of_v, _, _, real_work, info = rest
        assert first == second and m >= n and real_work is None
        x, k = self.view(t, a, line, n), min(m, n)
        full = first == b"A"
        get = getattr(lapack, f"{t}gesdd")
        left, values, right, code = get(x, compute_uv=first != b"N", full_matrices=full)
        self.view(t, s, 1, k)[0] = values
        if first != b"N":
            self.view(t, u, line_of_u, m if full else k)[...] = left
            self.view(t, v, line_of_v, n)[...] = right
        x[...] = 7
        self.view("i", info, 1, 1)[...] = code


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedSolver]:
    """A GPU, and cuSOLVER."""
    gpu = SimulatedCuda()
    found = SimulatedSolver(gpu)
    monkeypatch.setattr(solver, "library", lambda: found)
    with default(device_of(gpu, native=True)):
        yield found


def matrices(dtype: str, *shape: int) -> Any:
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if dtype.startswith("c") else x).astype(dtype)


def positive(x: Any) -> Any:
    return x @ x.conj().swapaxes(-1, -2) + 3 * np.eye(x.shape[-1], dtype=x.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_decompositions_stay_on_the_device(simulated: SimulatedSolver, dtype: str) -> None:
    square, tall = matrices(dtype, 3, 40, 40), matrices(dtype, 2, 7, 4)
    near = {"rtol": 1e-3, "atol": 1e-3}
    before = simulated.gpu.calls["cuMemcpyDtoHAsync"]
    q, r = tfn.jit(tnp.linalg.qr)(tnp.array(tall))
    x = tfn.jit(tnp.linalg.solve)(tnp.array(square), tnp.array(square[:, :, :2]))
    u, s, v = tfn.jit(lambda a: tnp.linalg.svd(a, full_matrices=False))(tnp.array(tall))
    w, z = tfn.jit(tnp.linalg.eigh)(tnp.array(positive(square)))
    c = tfn.jit(tnp.linalg.cholesky)(tnp.array(positive(square)))
    only = tfn.jit(tnp.linalg.eigvalsh)(tnp.array(positive(square)))
    assert simulated.gpu.calls["cuMemcpyDtoHAsync"] == before
    q, r, x, u, s, v, w, z, c, only = map(np.asarray, (q, r, x, u, s, v, w, z, c, only))
    np.testing.assert_allclose(q @ r, tall, **near)
    np.testing.assert_allclose(x, np.broadcast_to(np.eye(40)[:, :2], x.shape), **near)
    np.testing.assert_allclose((u * s[:, None]) @ v, tall, **near)
    np.testing.assert_allclose(z * w[:, None] @ z.conj().swapaxes(1, 2), positive(square), **near)
    np.testing.assert_allclose(c @ c.conj().swapaxes(1, 2), positive(square), **near)
    np.testing.assert_allclose(only, w, **near)
    called = {n for n in simulated.calls if not n.endswith("_bufferSize")}
    assert called == {"getrf", "getrs", "potrf", "geqrf", "gesvd", "orgqr", "syevd"}
    assert simulated.calls["potrf"] == 3 and simulated.calls["geqrf"] == 2  # for each matrix


def test_workspaces_are_asked_for_once(simulated: SimulatedSolver) -> None:
    f, x = tfn.jit(tnp.linalg.cholesky), positive(matrices("float32", 4, 9, 9))
    for _ in range(3):
        y = f(tnp.array(x))
    assert simulated.calls["potrf_bufferSize"] == 1 and simulated.calls["potrf"] == 12
    np.testing.assert_allclose(np.asarray(y), np.linalg.cholesky(x), rtol=1e-4, atol=1e-4)


def test_wide_matrices_and_other_routines_go_to_the_host(simulated: SimulatedSolver) -> None:
    wide = matrices("float32", 3, 6)
    s = tfn.jit(lambda a: tnp.linalg.svd(a, compute_uv=False))(tnp.array(wide))
    np.testing.assert_allclose(np.asarray(s), np.linalg.svd(wide, compute_uv=False), rtol=1e-5)
    x = matrices("complex64", 4, 4)
    q, r = map(np.asarray, tfn.jit(tnp.linalg.qr)(tnp.array(x)))
    np.testing.assert_allclose(q @ r, x, rtol=1e-4, atol=1e-4)
    assert not simulated.calls and simulated.gpu.calls["cuMemcpyDtoHAsync"]


def test_empty_stacks(simulated: SimulatedSolver) -> None:
    y = tfn.jit(tnp.linalg.cholesky)(tnp.zeros((0, 3, 3)))
    assert np.asarray(y).shape == (0, 3, 3) and not simulated.calls


def test_an_error_of_the_library(simulated: SimulatedSolver) -> None:
    simulated.fails = "potrf"
    with pytest.raises(DeviceError, match="cuSOLVER could not run on a simulated GPU") as raised:
        tfn.jit(tnp.linalg.cholesky)(tnp.eye(9))
    assert "status 7 from cusolverDnSpotrf" in str(raised.value)


def test_without_the_library_the_host_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "library", lambda: None)
    x = positive(matrices("float32", 9, 9))
    gpu = SimulatedCuda()
    with default(device_of(gpu, native=True)):
        y = np.asarray(tfn.jit(tnp.linalg.cholesky)(tnp.array(x)))
    np.testing.assert_allclose(y, np.linalg.cholesky(x), rtol=1e-4, atol=1e-4)


def test_a_library_that_is_not_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "NAMES", ("libno-such-library.so",))
    solver.library.cache_clear()
    try:
        assert solver.library() is None
    finally:
        solver.library.cache_clear()


def test_every_row_is_a_routine_of_lapack() -> None:
    assert set(ROWS) <= set(CALLS) and len(ROWS) == 7


def test_large_fourier_transforms_stay_on_the_device() -> None:
    gpu, x = SimulatedCuda(), RNG.normal(size=(3, 2310)).astype("float32")
    with default(device_of(gpu, native=True)):
        given = tnp.array(x)
        f = tfn.jit(lambda x: tnp.fft.irfft(tnp.fft.rfft(x)[:, :200], 398))
        y = f(given)
        assert not gpu.calls["cuMemcpyDtoHAsync"]
        expected = np.fft.irfft(np.fft.rfft(x)[:, :200], 398)
        np.testing.assert_allclose(np.asarray(y), expected, rtol=1e-3, atol=1e-5)


def test_a_routine_that_runs_on_the_host_is_noted_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(config, "disk_cache", False)
    monkeypatch.setattr(solver, "library", lambda: None)
    x = np.eye(9, dtype=np.float32) + 1
    with default(device_of(SimulatedCuda())), caplog.at_level("INFO", "tfn.cuda"):
        for _ in range(2):
            tfn.block_until_ready(tfn.jit(tnp.linalg.cholesky)(tnp.asarray(x)))
    notes = [record.getMessage() for record in caplog.records]
    assert notes == [
        "potrf runs on the host, with copies there and back: cuSOLVER is not installed"
    ]
