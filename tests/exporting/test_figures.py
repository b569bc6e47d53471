"""Figures of programs for microcontrollers: counted, measured, and held against emulated calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as jnp
from tests.covering import in_turn
from tests.exporting.boards import BOARDS, needs_boards, on_board
from tests.exporting.building import same_bits
from tfn import lax, nn, random
from tfn.exporting import figures as figures_file
from tfn.nn import quantize

UNIT = quantize.Quantization(jnp.float32(1 / 40), jnp.int32(-128))


@nn.module
class Small:
    """Two equal layers and another, quantized."""

    layers: tuple[quantize.Conv, ...]
    out: quantize.Linear

    def __call__(self, x: tfn.Array) -> tfn.Array:
        for layer in self.layers:
            x = layer(x)
        return self.out(x.reshape(1, -1))


def small() -> Small:
    keys = iter(random.split(random.key(0), 4))
    sizes = [(3, 4, 2), (4, 4, 1), (4, 4, 1)]
    layers = [nn.Conv2d.init(next(keys), i, o, 3, strides=s, padding="SAME") for i, o, s in sizes]
    convs = tuple(quantize.Conv.of(layer, UNIT, UNIT, relu=True) for layer in layers)
    return Small(convs, quantize.Linear.of(nn.Linear.init(next(keys), 64, 5), UNIT, None))


IMAGE = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 3)).astype("int8")
PRODUCTS = {"layers[0]": 27 * 4 * 16, "layers[1]": 36 * 4 * 16, "layers[2]": 36 * 4 * 16}


def test_layers_have_names_products_weights_and_bytes(tmp_path: Path) -> None:
    """Padding is multiplied too, since a load of it is a condition and not another loop."""
    call = lambda net, x: net(x)
    made = tfn.export(call, small(), IMAGE, path=tmp_path / "m.c", target="cortex-m4", embed=0)
    assert made.figures is not None
    found = {x.name.removeprefix("Small/"): x for x in made.figures.layers}
    assert {name: found[name].multiply_adds for name in PRODUCTS} == PRODUCTS
    assert found["out"].multiply_adds == 64 * 5
    assert found["layers[1]"].weight_bytes >= 36 * 4
    assert found["layers[1]"].kernel == found["layers[2]"].kernel
    assert found["layers[1]"].arena_bytes == 4 * 4 * 4 * 2
    assert made.figures.arena_bytes == made.signature.arena_bytes
    assert made.figures.cycles is not None and made.figures.cycles > made.figures.multiply_adds
    table, header = str(made), made.files[1].read_text()
    assert "layers[2]" in table and "layers[2]" in header
    assert f"#define M_STACK_BYTES {made.figures.stack_bytes}\n#else" in header
    assert f"#define M_STACK_BYTES {made.figures.plain_stack_bytes}\n#endif" in header


def test_layers_have_the_same_names_when_a_network_is_exported_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passes whose results are remembered would give nodes that no line has recorded."""
    monkeypatch.setattr(figures_file, "built", lambda *_: None)
    call, names = lambda net, x: net(x), []
    for _ in range(2):
        made = tfn.export(call, small(), IMAGE, path=tmp_path / "m.c", target="cortex-m7", embed=0)
        assert made.figures is not None
        names.append([x.name.removeprefix("Small/") for x in made.figures.layers])
    assert names == [["layers[0]", "layers[1]", "layers[2]", "out"]] * 2


def test_only_programs_for_size_have_figures(tmp_path: Path) -> None:
    made = tfn.export(jnp.tanh, IMAGE[0, 0, 0], path=tmp_path / "f.c")
    assert made.figures is None and "f.c, f.h" in str(made)
    made = tfn.export(jnp.abs, IMAGE[0, 0, 0], path=tmp_path / "f.c", optimize="size")
    assert made.figures is not None and made.figures.compiler == ""


def integers(x: Any) -> tuple[Any, ...]:
    """Operations whose indices are computed, with conditions, or have kernels of their own."""
    rows = x.reshape(4, -1)
    return (
        *(jnp.roll(x, 2), x[::-1], jnp.cumsum(rows, 0), jnp.sort(rows, 0), jnp.argsort(x)),
        *(*lax.top_k(x, 3), jnp.bincount(x, length=30), x[x % 3], x.at[x % 5].add(1)),
        *(jnp.pad(x, 3, mode="reflect"), jnp.tril(rows), rows @ rows.T),
        *(jnp.unique(x, size=5), lax.reduce_window(x, 0, lax.add, (3,), (2,), "SAME")),
        *lax.scan(lambda c, y: (c + y, c * y), x[0], x),
    )


def looped(x: Any) -> Any:
    """A loop, a branch and a call that is repeated."""
    row = tfn.jit(lambda x: jnp.cumsum(x) * 3 - jnp.roll(x, 2))
    x = lax.fori_loop(0, 5, lambda i, x: row(x) + i, x.astype("int32"))
    return lax.cond(x[0] > 0, lambda x: row(x), lambda x: x[::-1], x)


CALLS: list[tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]] = [
    (lambda net, x: net(x), (small(), IMAGE), (0,)),
    (looped, (IMAGE[0, 0].ravel(),), ()),
    (integers, (np.arange(24, dtype=np.int8) * 7 % 19,), ()),
]


@needs_boards
@pytest.mark.parametrize(
    "call, target",
    in_turn(
        2,
        [*((0, board) for board in BOARDS), (1, "cortex-m0+"), (1, "cortex-m33"), (2, "cortex-m4")],
    ),
)
def test_calls_have_the_bits_of_the_cpu_and_stay_within_the_stated_stack(
    call: int, target: str, tmp_path: Path, uncompiled: None
) -> None:
    function, args, embed = CALLS[call]
    made = on_board(function, *args, folder=tmp_path, target=target, embed=embed)
    for got, want in zip(made.outputs, tfn.tree.leaves(tfn.jit(function)(*args)), strict=True):
        same_bits(got, want)
    assert made.exported.figures.compiler.startswith("arm-none-eabi-gcc")
    assert 0 < made.stack_bytes <= made.exported.figures.stack_bytes
    assert abs(made.code_bytes - made.exported.figures.code_bytes) < 64


def floats(x: Any, w: Any) -> tuple[Any, ...]:
    """With functions of a library, where a core has no FPU."""
    return jnp.tanh(x @ w), jnp.cumsum(x, 0), x.astype("float64") * 3 / 7


MATRIX = np.random.default_rng(1).standard_normal((6, 6)).astype("float32")
CALLS.append((floats, (MATRIX, MATRIX), ()))


@needs_boards
@pytest.mark.parametrize(
    "call, target, level",
    in_turn(
        12,
        [
            (call, target, level)
            for level in ("-O3", "-O2", "-O1", "-Og", "-O0")
            for target in ("cortex-m4", "cortex-m0+", "cortex-m55")
            for call in range(len(CALLS))
        ],
    ),
)
def test_the_stated_stack_holds_at_every_level_of_optimization(
    call: int, target: str, level: str, tmp_path: Path
) -> None:
    function, args, embed = CALLS[call]
    made = on_board(
        function,
        *args,
        folder=tmp_path,
        target=target,
        flags=(level,),
        libraries=("-lgcc",),
        embed=embed,
    )
    stated = made.exported.figures
    bound = stated.plain_stack_bytes if level == "-O0" else stated.stack_bytes
    assert 0 < made.stack_bytes <= bound
    assert stated.stack_bytes <= stated.plain_stack_bytes


@needs_boards
@pytest.mark.parametrize("level", in_turn(3, ["-O1", "-O0", "-O3"]))
def test_a_stack_that_is_counted_from_the_text_is_never_exceeded(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures_file, "built", lambda *_: None)
    function, args, embed = CALLS[0]
    made = on_board(
        function, *args, folder=tmp_path, target="cortex-m4", flags=(level,), embed=embed
    )
    assert made.exported.figures.compiler == ""
    assert 0 < made.stack_bytes <= made.exported.figures.stack_bytes
