"""Functions exported as C: results, arguments, refusals."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.exporting.building import COMPILERS, in_a_loop, in_c, needs_cc, same_bits
from tfn import lax, nn, random
from tfn.errors import ArgumentError, CompileError, ExportError
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.target import named
from tfn.hw.dsp import linker
from tfn.numpy import linalg

SANITIZED = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def check(function: Callable[..., Any], *args: Any, folder: Path, **options: Any) -> Any:
    """Raise unless a function computes in C what it computes here."""
    want = tfn.tree.leaves(tfn.jit(function)(*args))
    got = in_c(function, *args, folder=folder, compiler=COMPILERS[:1], **options)
    assert len(got) == len(want)
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        same_bits(g, w, i)


@needs_cc
@pytest.mark.parametrize("compiler", COMPILERS)
def test_drawn_programs_run_clean(compiler: str, tmp_path: Path) -> None:
    """Without a warning, a fault of memory, or anything undefined: a few in one."""
    for i, (source, inputs) in enumerate(SOURCES):
        names: dict[str, Any] = {"xp": tnp}
        exec(source, names)
        function = names["f"]
        folder = tmp_path / str(i)
        folder.mkdir()
        want = tfn.tree.leaves(tfn.jit(function)(*inputs))
        got = in_c(function, *inputs, folder=folder, compiler=[compiler], flags=SANITIZED)
        for g, w in zip(got, want, strict=True):
            same_bits(g, w, source)


@needs_cc
@pytest.mark.skipif(not shutil.which("nm"), reason="nm, of binutils, is not installed")
@pytest.mark.parametrize("half, target", in_turn(2, [(0, "x86-64"), (1, "x86-64-v3")]))
def test_objects_call_memcpy_memset_and_fma_alone(half: int, target: str, tmp_path: Path) -> None:
    for i, (source, inputs) in enumerate(SOURCES[half::2]):
        names: dict[str, Any] = {"xp": tnp}
        exec(source, names)
        tfn.export(names["f"], *inputs, path=tmp_path / f"p{i}.o", target=target)
        made = tfn.export(names["f"], *inputs, path=tmp_path / f"c{i}.c", target=target).files[0]
        text = ["-O2", "-ffp-contract=off", "-c", str(made), "-o", str(made.with_suffix(".o"))]
        subprocess.run([COMPILERS[0], *text], check=True)
        for file in (f"p{i}.o", f"c{i}.o"):
            listed = subprocess.run(["nm", "-u", tmp_path / file], capture_output=True, text=True)
            called = set(listed.stdout.split()) - {"U", "_GLOBAL_OFFSET_TABLE_"}
            assert called <= {"memcpy", "memset", "memmove", "fma", "fmaf"}, (file, source)


def rows(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


SOURCES = [
    (
        "def f(x, k):\n"
        "    order = xp.argsort(x, axis=-1)\n"
        "    s = xp.sort(xp.flip(x, 0), axis=-1)\n"
        "    return xp.pad(s, ((1, 0), (0, 2))), order, x[k], xp.cumsum(x, 0)\n",
        (rows(0, 7, 17), np.array([2, 5, 0], np.int32)),
    ),
    (
        "def f(x, m):\n"
        "    y = xp.where(m, xp.exp(x), xp.tanh(x)) @ xp.ones((3, 5), 'float32')\n"
        "    z = (x * 1000).astype('int8').astype('float16') // xp.asarray(3, 'float16')\n"
        "    return y.max(0), y.argmin(), z, (x > 0).any(1), xp.round(x * 7), xp.log1p(abs(x))\n",
        (rows(1, 33, 3), rows(2, 33, 3) > 0),
    ),
    (
        "def f(x):\n"
        "    sums = xp.flip(xp.cumsum(xp.flip(x, 1), 1), 1)\n"
        "    return sums, xp.cumsum(x.astype('int64'), 1), (x * 1e19).astype('uint64')\n",
        (1000 * rows(0, 13, 67),),
    ),
]
"""Programs with much in them, and what they are called with."""


@needs_cc
def test_trees_have_names_that_c_can_say(tmp_path: Path) -> None:
    def f(params: Any, x: Any, *, scale: Any) -> Any:
        return {"y": x @ params["w"][0] * scale, "for": (params["w"][1], x.sum())}

    params = {"w": [rows(0, 3, 4), rows(1, 2)]}
    made = tfn.export(f, params, rows(2, 5, 3), scale=np.float32(2), path=tmp_path / "some-name.c")
    signature = made.signature
    assert signature.name == "some_name"
    assert [x.name for x in signature.inputs] == ["params_w_0", "params_w_1", "x", "scale"]
    assert [x.path for x in signature.outputs] == ["out['for'][0]", "out['for'][1]", "out['y']"]
    assert [x.name for x in signature.outputs] == ["out_for_0", "out_for_1", "out_y"]
    assert {file.name for file in made.files} == {"some-name.c", "some_name.h"}


@needs_cc
def test_results_that_are_arguments_or_each_other(tmp_path: Path) -> None:
    check(lambda x, y: (x, y + 1, y + 1, x), rows(0, 5), rows(1, 3), folder=tmp_path)


@needs_cc
def test_odd_sizes(tmp_path: Path) -> None:
    """No elements, one element, no arguments."""
    check(lambda x, y: (x * 2, y + 1, tnp.arange(3)), rows(0, 0, 4), np.int32(7), folder=tmp_path)


@needs_cc
def test_values_become_part_of_the_code(tmp_path: Path) -> None:
    captured = tnp.asarray(rows(3, 4))
    w, b = rows(1, 4, 3), np.array([True, False, True])

    def f(w: Any, x: Any, b: Any) -> Any:
        return tnp.where(b, (x + captured) @ w, 0)

    x = rows(2, 2, 4)
    made = tfn.export(f, w, x, b, path=tmp_path / "made.c", embed=["w", 2])
    assert [field.name for field in made.signature.inputs] == ["x"]
    assert made.signature.constants == ("w", "b")
    (got,) = in_c(lambda x: f(w, x, b), x, folder=tmp_path, compiler=COMPILERS[:1])
    same_bits(got, tfn.jit(f)(w, x, b))


@needs_cc
@pytest.mark.parametrize(
    "kind", in_turn(2, ["bool", "int8", "uint64", "bfloat16", "float16", "complex64"])
)
def test_dtypes_of_arguments_and_constants(kind: str, tmp_path: Path) -> None:
    x = tnp.asarray(rows(0, 3, 7) * 3).astype(kind)
    w = tnp.asarray(rows(1, 7) * 3).astype(kind)
    check(lambda x: (x | w) if kind == "bool" else x * w, x, folder=tmp_path)


@needs_cc
def test_loops_branches_and_keys(tmp_path: Path) -> None:
    """Whole programs: a scan, a while, a cond, random numbers, a step of training."""

    def f(seed: Any, w: Any, xs: Any) -> Any:
        key = random.key(seed)
        noise = random.normal(key, w.shape)
        state, ys = lax.scan(lambda h, x: ((h * x).sum() + h, h.max()), w + noise, xs)
        count = lax.while_loop(lambda n: (n * n) < seed + 50, lambda n: n + 1, seed)
        chosen = lax.cond(count > 8, lambda x: tnp.sort(x), lambda x: x - 1, xs[:, 0])
        loss, slope = tfn.value_and_grad(lambda w: nn.softmax(w * xs).max(0).sum())(w)
        return state, ys, count, chosen, loss, w - slope

    check(f, np.int32(3), rows(0, 5), rows(1, 9, 5) / 10, folder=tmp_path)


@needs_cc
@pytest.mark.parametrize("kind", in_turn(2, ["float16", "bfloat16", "int8", "uint16"]))
def test_orders_of_narrow_keys(kind: str, tmp_path: Path) -> None:
    """Constants of 8 and 16 bits are computed in 32 bits by C, and cut off without a warning."""
    x = tnp.asarray(rows(0, 70, 3) * 9).astype(kind)
    check(lambda x: tnp.argsort(x, axis=0, stable=True), x, folder=tmp_path)


class TestRefused:
    def test_callbacks_are_refused(self, tmp_path: Path) -> None:
        def call(x: Any) -> Any:
            return tfn.pure_callback(np.sin, tfn.ShapeDtypeStruct((3,), "float32"), x)

        with pytest.raises(ExportError, match="sin"):
            tfn.export(call, rows(0, 3), path=tmp_path / "made.c")
        with pytest.raises(ExportError, match="effects"):
            tfn.export(lambda x: tfn.debug.print("{}", x), rows(0, 3), path=tmp_path / "made.c")
        assert not list(tmp_path.iterdir())

    def test_kinds_and_targets_that_are_not_there(self, tmp_path: Path) -> None:
        x = rows(0, 3)
        with pytest.raises(ArgumentError, match="kinds are c, obj, so, wasm, js"):
            tfn.export(tnp.sin, x, path=tmp_path / "made.exe")
        with pytest.raises(ArgumentError, match="targets are host, x86-64"):
            tfn.export(tnp.sin, x, path=tmp_path / "made.c", target="z80")
        with pytest.raises(ArgumentError, match="so cannot be made for wasm32"):
            tfn.export(tnp.sin, x, path=tmp_path / "made.so", target="wasm32")

    def test_constants_that_have_no_value(self, tmp_path: Path) -> None:
        x = tfn.ShapeDtypeStruct((3,), "float32")
        with pytest.raises(ArgumentError, match="has no value"):
            tfn.export(lambda x: x, x, path=tmp_path / "made.c", embed="x")
        with pytest.raises(ArgumentError, match="cannot embed 'y'"):
            tfn.export(lambda x: x, x, path=tmp_path / "made.c", embed="y")


@needs_cc
@pytest.mark.parametrize("flags", [("-O2",), ("-O1", "-fsanitize=thread")], ids=str)
def test_threads_share_the_work(flags: tuple[str, ...], tmp_path: Path) -> None:
    """The same bits, whoever computes them, and no race: loops, branches, barriers."""

    def f(x: Any, w: Any, n: Any) -> Any:
        y, _ = lax.scan(lambda h, row: (tnp.tanh(h @ w + row), None), x, tnp.stack([x, x + 1, x]))
        y = lax.cond(n > 2, lambda y: tnp.sort(y, axis=1), lambda y: y, y)
        return y, lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] @ w), (0, y))

    args = rows(0, 130, 96), rows(1, 96, 96) / 10, np.int32(3)
    want = tfn.tree.leaves(tfn.jit(f)(*args))
    got = in_c(
        f, *args, folder=tmp_path, compiler=COMPILERS[:1], flags=("-pthread", *flags), threads=3
    )
    for g, w in zip(got, want, strict=True):
        same_bits(g, w)
    assert "MADE_THREADS 3" in (tmp_path / "made.h").read_text()
    with pytest.raises(ArgumentError, match="several threads in C only"):
        tfn.export(f, *args, path=tmp_path / "made.o", threads=2)


def decode(weights: Any, state: Any) -> Any:
    """A step of a small transformer: one token in, the likeliest next one out, keys remembered."""
    keys, values, position, token = state
    x = weights["embed"][token] + weights["place"][position]
    for i, layer in enumerate(weights["layers"]):
        q, k, v = (x @ layer[name] for name in "qkv")
        keys = lax.dynamic_update_slice(keys, k[None, None], (i, position, 0))
        values = lax.dynamic_update_slice(values, v[None, None], (i, position, 0))
        scores = keys[i] @ q / 4
        part = nn.softmax(tnp.where(tnp.arange(len(scores)) <= position, scores, -1e9))
        x = x + part @ values[i]
        x = x + nn.gelu(x @ layer["up"]) @ layer["down"]
    logits = x @ weights["embed"].T
    return keys, values, position + 1, logits.argmax().astype("int32")


@needs_cc
def test_a_transformer_writes_text_from_c(tmp_path: Path) -> None:
    """Token after token, in memory that is given once."""
    shapes = {"q": (16, 16), "k": (16, 16), "v": (16, 16), "up": (16, 64), "down": (64, 16)}
    layers = [
        {name: rows(i, *shape) / 3 for i, (name, shape) in enumerate(shapes.items(), 9 * j)}
        for j in range(2)
    ]
    weights = {"embed": rows(90, 50, 16), "place": rows(91, 12, 16), "layers": layers}
    cache = np.zeros((2, 12, 16), np.float32)
    state = (cache, cache.copy(), np.int32(0), np.int32(7))
    written = in_a_loop(
        decode, weights, state, times=12, folder=tmp_path, embed=["weights"], carried=4
    )
    step = tfn.jit(decode)
    for got in written:
        state = step(weights, state)
        for g, w in zip(got, state, strict=True):
            same_bits(g, w)
    assert len({int(got[3]) for got in written}) > 1


def recall(weights: Any, state: Any, xs: Any) -> Any:
    """A long short-term memory over a sequence."""

    def cell(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = tnp.split(x @ weights["x"] + h @ weights["h"], 4)
        c = nn.sigmoid(f + 1) * c + nn.sigmoid(i) * tnp.tanh(g)
        h = nn.sigmoid(o) * tnp.tanh(c)
        return (h, c), h

    return lax.scan(cell, state, xs)


@needs_cc
def test_a_recurrent_network_goes_on_in_c(tmp_path: Path) -> None:
    weights = {"x": rows(0, 5, 32) / 2, "h": rows(1, 8, 32) / 2}
    state, xs = (np.zeros(8, np.float32), np.zeros(8, np.float32)), rows(2, 20, 5)
    written = in_a_loop(
        recall, weights, state, xs, times=3, folder=tmp_path, embed=["weights"], carried=2
    )
    for got in written:
        state, ys = tfn.jit(recall)(weights, state, xs)
        for g, w in zip(got, (*state, ys), strict=True):
            same_bits(g, w)


HEXAGON_MAIN = """
@syscall = constant [3 x i32] [i32 -1851932666, i32 1409335300, i32 1386201088],
  section ".text.syscall", align 16
@data = internal global [8192 x i8] zeroinitializer, align 128
@arena = internal global [65536 x i8] zeroinitializer, align 128
declare i32 @made(ptr, ptr)
define void @_start() {
  %args = alloca [64 x i8], align 8
  %data = getelementptr i8, ptr @data, i32 1024
  %got = call i32 @syscall(i32 0, ptr %data, i32 INPUT_BYTES, i32 0, i32 0, i32 0, i32 63)
  store i32 ABI, ptr %args
  %program = getelementptr i8, ptr %args, i32 4
  store i32 PROGRAM, ptr %program
  %size = getelementptr i8, ptr %args, i32 8
  store i64 65536, ptr %size
POINTERS
  %error = call i32 @made(ptr %args, ptr @arena)
  %out = getelementptr i8, ptr @data, i32 4096
  %n = call i32 @syscall(i32 1, ptr %out, i32 OUTPUT_BYTES, i32 0, i32 0, i32 0, i32 64)
  %gone = call i32 @syscall(i32 %error, i32 0, i32 0, i32 0, i32 0, i32 0, i32 94)
  unreachable
}
"""
"""A program that reads one input, calls the function, and writes one output."""


@pytest.mark.skipif(not shutil.which("qemu-hexagon"), reason="qemu-hexagon is not installed")
@pytest.mark.parametrize("dtype", in_turn(3, ["int8", "float32", "float64"]))
def test_objects_for_hexagon_run_without_libraries(dtype: str, tmp_path: Path) -> None:
    def f(x: tfn.Array) -> tfn.Array:
        return tnp.sort(x * x[::-1]) + tnp.cumsum(x, dtype=x.dtype) // 3

    x = np.random.default_rng(0).integers(-9, 9, 77).astype(dtype)
    exported = tfn.export(f, x, path=tmp_path / "made.o", target="hexagon")
    assert "128 bytes before and after" in (tmp_path / "made.h").read_text()
    signature, size = exported.signature, x.nbytes
    start = HEXAGON_MAIN.replace("INPUT_BYTES", str(size)).replace("OUTPUT_BYTES", str(size))
    start = start.replace("ABI", "1").replace("PROGRAM", str(signature.program))
    pointers = []
    for i, at in enumerate((1024, 4096)):
        pointers += [
            f"  %at{i} = getelementptr i8, ptr @data, i32 {at}",
            f"  %member{i} = getelementptr i8, ptr %args, i32 {16 + 4 * i}",
            f"  store ptr %at{i}, ptr %member{i}",
        ]
    start = start.replace("POINTERS", "\n".join(pointers))
    objects = [
        LlvmCompiler().compile(start, named("hexagon")),
        (tmp_path / "made.o").read_bytes(),
    ]
    program = tmp_path / "program"
    program.write_bytes(linker.executable(linker.link(objects, 0x10_0000), "_start"))
    program.chmod(0o700)
    ran = subprocess.run(
        ["qemu-hexagon", program], input=x.tobytes(), capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == np.asarray(tfn.jit(f)(x)).tobytes()


def test_no_library_is_linked_for_hexagon(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="no linker"):
        tfn.export(lambda x: x + 1, np.ones(3), path=tmp_path / "made.so", target="hexagon")


@pytest.mark.parametrize("n", in_turn(3, [12, 37, 100]))
def test_fourier_transforms_in_c(n: int, tmp_path: Path) -> None:
    """A product, Bluestein's convolution, and mixed radix: with tables as part of the code."""
    random = np.random.default_rng(0)
    x = (random.normal(size=(2, n)) + 1j * random.normal(size=(2, n))).astype(np.complex64)
    (got,) = in_c(
        lambda x: tnp.fft.ifft(tnp.fft.fft(x) * 2.0), x, folder=tmp_path, compiler=COMPILERS[:1]
    )
    np.testing.assert_allclose(got, 2 * x, atol=1e-5)
    assert "table" not in (tmp_path / "made.h").read_text()


@needs_cc
def test_systems_of_small_matrices_in_c(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(size=(5, 4, 4)), random.normal(size=(5, 4, 2))
    (got,) = in_c(tnp.linalg.solve, a, b, folder=tmp_path, compiler=COMPILERS[:1])
    np.testing.assert_allclose(got, np.linalg.solve(a, b), rtol=1e-9)


@needs_cc
def test_a_table_that_is_a_result_in_c(tmp_path: Path) -> None:
    def turned(x: Any) -> Any:
        sines = tnp.sin(tnp.arange(500.0))
        return sines, x * sines

    check(turned, rows(0, 500), folder=tmp_path)


def factorised(a: Any) -> Any:
    """One result of each factorisation, and a gradient through some."""
    b = a @ a.T + 9 * tnp.eye(9)
    slope = tfn.grad(lambda b: linalg.slogdet(b)[1] + linalg.cholesky(b).sum())(b)
    lengths = linalg.svd(a[:, :4])[1], linalg.eigvalsh(b)
    return linalg.cholesky(b), linalg.solve(b, a), linalg.qr(a), linalg.det(a), *lengths, slope


@needs_cc
def test_factorisations_in_c(tmp_path: Path) -> None:
    """Without LAPACK, and without a fault of memory."""
    a = np.random.default_rng(0).normal(size=(9, 9))
    got = in_c(factorised, a, folder=tmp_path, compiler=COMPILERS[:1], flags=SANITIZED)
    for mine, theirs in zip(got, tfn.tree.leaves(tfn.jit(factorised)(a)), strict=True):
        np.testing.assert_allclose(np.abs(mine), np.abs(theirs), 1e-9, 1e-9)


@needs_cc
def test_fourier_transforms_in_c_under_sanitizers(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(2, 60)).astype(np.float32)

    def f(x: Any) -> Any:
        y = tnp.fft.rfft(x)
        return abs(y), tnp.fft.irfft(y * y), abs(tnp.fft.fft2(x[:, :37]))

    got = in_c(f, x, folder=tmp_path, compiler=COMPILERS[:1], flags=SANITIZED)
    for mine, theirs in zip(got, tfn.jit(f)(x), strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-4, 1e-4)
