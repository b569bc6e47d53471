"""Ways to run a program, each compared with the values that the oracle gave line by line.

A check raises Disagreement, or whatever tfn raises.  `CHECKS` says for how many programs of
a hundred each check runs: the fast ones always, the others now and then, or if they are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import tfn
import tfn.numpy as tnp
from tests.exporting.building import COMPILERS, in_c
from tests.fuzz.programs import Input, Line, Program, evaluate_line
from tests.fuzz.steps import DISCRETE, STEPS
from tests.fuzz.values import (
    FLOATS,
    NARROW,
    WIDE,
    Disagreement,
    Unfit,
    Value,
    device,
    devices,
    precision,
    require_close,
    shown,
    widened,
)
from tfn.errors import ExportError

KINKS = {name for name, step in STEPS.items() if step.kink or step.result == DISCRETE}
"""Steps that finite differences may step over a jump or a corner of."""


class Inapplicable(Exception):
    """A program that a check cannot be run for."""


@contextmanager
def on_the_host() -> Iterator[None]:
    """Programs that cannot be exported: callbacks and, in C, Fourier transforms and LAPACK."""
    try:
        yield
    except ExportError as error:
        if any(word in error.what for word in ("Python", "effects")):
            raise Inapplicable from None
        raise


def arrays(inputs: dict[str, Input]) -> list[tfn.Array]:
    """Inputs on the default device."""
    return [tnp.asarray(x.numbers()) for x in inputs.values()]


def require_outputs(program: Program, results: Any, ways: str) -> None:
    """Each result is the value of its name."""
    values = program.evaluated()
    for name, result in zip(program.outputs, results, strict=True):
        require_close(result, values[name], f"{ways} of {name}")


def jit(program: Program) -> None:
    """Compiled as a whole."""
    with device("cpu"):
        results = tfn.jit(program.function(NARROW))(*arrays(program.inputs))
        require_outputs(program, results, "jit and the oracle")


def guarded(program: Program) -> None:
    """Compiled as a whole, with red zones around blocks and poison in those that are free."""
    with device("cpu-debug"):
        results = tfn.jit(program.function(NARROW))(*arrays(program.inputs))
        require_outputs(program, results, "jit with guards and the oracle")


def eager(program: Program) -> None:
    """One operation after the other."""
    with device("cpu"):
        results = program.function(NARROW)(*arrays(program.inputs))
        require_outputs(program, results, "eager and the oracle")


def oracle(program: Program) -> None:
    """Traced and simplified, then run by the oracle: the graph, without the compiler."""
    with device("python"):
        results = tfn.jit(program.function(NARROW))(*arrays(program.inputs))
        require_outputs(program, results, "jit by the oracle and its lines")


def export(program: Program) -> None:
    """Written as bytes, read again, and compiled."""
    with device("cpu"):
        inputs = arrays(program.inputs)
        with on_the_host():
            data = tfn.export.serialize(program.function(NARROW), *inputs)
        require_outputs(program, tfn.export.deserialize(data)(*inputs), "export and the oracle")


def sharded(program: Program) -> None:
    """Divided among devices, in a way that its text draws."""
    random = Random(program.source())
    sizes = random.choice([(2,), (3,), (2, 2), (2, 3)])
    with device("cpu"), devices(math.prod(sizes)):
        mesh = tfn.make_mesh(sizes, ("x", "y")[: len(sizes)], tfn.sharding.AxisType.Auto)
        inputs = [
            tfn.device_put(x, tfn.NamedSharding(mesh, drawn_spec(random, x.shape, mesh)))
            for x in arrays(program.inputs)
        ]
        results = tfn.jit(program.function(NARROW))(*inputs)
        require_outputs(program, results, "parts on devices and the oracle")


def drawn_spec(random: Random, shape: tuple[int, ...], mesh: Any) -> Any:
    """A spec that divides some axes of an array over some axes of a mesh, where sizes allow it."""
    parts: list[Any] = [None] * len(shape)
    for name, size in mesh.shape.items():
        free = [i for i, n in enumerate(shape) if parts[i] is None and n % size == 0]
        if free and random.random() < 0.8:
            parts[random.choice(free)] = name
    return tfn.P(*parts)


SANITIZED = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
"""Flags of gcc and clang: any access out of bounds and any undefined behaviour ends the program."""


def sanitize(program: Program) -> None:
    """Exported as C, built with sanitizers, and run in a process of its own."""
    with device("cpu"), TemporaryDirectory() as folder:
        function, inputs = program.function(NARROW), arrays(program.inputs)
        with on_the_host():
            results = in_c(
                function, *inputs, folder=Path(folder), compiler=COMPILERS[:1], flags=SANITIZED
            )
        require_outputs(program, results, "exported C and the oracle")


def vmap(program: Program) -> None:
    """Three sets of inputs at once, against one after the other; every third input is shared.

    The last set is the first once more: to evaluate lines takes longer than to run them.
    """
    axes = tuple(None if at % 3 == 2 else 0 for at in range(len(program.inputs)))
    if not axes:
        return
    sets = [
        {
            name: x if axis is None or x.kind == "given" else replace(x, seed=x.seed + shift)
            for (name, x), axis in zip(program.inputs.items(), axes)
        }
        for shift in (0, 100, 0)
    ]
    try:
        rows = [program.evaluated(), program.evaluated(sets[1]), program.evaluated()]
    except Unfit:  # the other inputs make it ill conditioned
        return
    with device("cpu"):
        stacked = [
            tnp.asarray(np.stack([inputs[name].numbers() for inputs in sets]))
            if axis == 0
            else tnp.asarray(program.inputs[name].numbers())
            for name, axis in zip(program.inputs, axes)
        ]
        results = tfn.jit(tfn.vmap(program.function(NARROW), in_axes=axes))(*stacked)
        for name, result in zip(program.outputs, results, strict=True):
            for at, values in enumerate(rows):
                require_close(np.asarray(result)[at], values[name], f"vmap[{at}] of {name}")


def moving(program: Program) -> list[str]:
    """Inputs that have derivatives."""
    return [name for name, x in program.inputs.items() if x.dtype in FLOATS]


def differentiable(program: Program) -> list[str]:
    """Outputs that have derivatives."""
    values = program.evaluated()
    return [name for name in program.outputs if values[name].dtype in FLOATS]


def gradient(program: Program) -> None:
    """Compiled gradient of a weighted sum of the outputs, against that of the oracle."""
    inputs, outputs = moving(program), differentiable(program)
    if not (program.smooth and inputs and outputs):
        return
    terms = [
        f"xp.sum({name}.astype(float32) * xp.cos(xp.arange({name}.size).astype(float32))"
        f".reshape({name}.shape))"
        for name in outputs
    ]
    loss = replace(program, outputs=(f"{' + '.join(terms)}",)).source()
    names = list(program.inputs)
    argnums = tuple(names.index(name) for name in inputs)
    results = tuple(f"d{at}" for at in argnums)
    line = Line(
        results,
        f"{loss}{', '.join(results)}, = tfn.grad(lambda *p: f(*p)[0], {argnums})"
        f"({', '.join(names)})",
        coarsest=coarsest(program),
    )
    values = {name: Value(x.numbers()) for name, x in program.inputs.items()}
    inexact = (x.numbers for x in program.evaluated().values() if x.error is not None)
    if not all(np.all(np.isfinite(widened(x))) for x in inexact):
        return  # zero times NaN is zero where a branch is known, NaN where it is not
    try:
        expected = evaluate_line(line, values)
    except Unfit:
        return
    with device("cpu"):
        scope = dict(NARROW)
        exec(loss, scope)
        differentiate = tfn.grad(lambda *p: scope["f"](*p)[0], argnums)
        for name, result in zip(results, tfn.jit(differentiate)(*arrays(program.inputs))):
            require_close(result, expected[name], f"jit of grad and the oracle, {name}")


def coarsest(program: Program) -> str:
    """The dtype of least precision that a program computes in."""
    dtypes = {"float32"} | {x.dtype for x in program.inputs.values()}
    dtypes |= {value.dtype for value in program.evaluated().values()}
    dtypes |= {line.coarsest for line in program.lines if line.coarsest}
    return max(dtypes & {*FLOATS}, key=lambda dtype: (precision(dtype)[0], dtype))


def adjoint(program: Program) -> None:
    """In float64: forward and reverse mode are adjoints, and forward mode is the difference.

    <ct, jvp(t)> = <vjp(ct), t>,  and  jvp(t) = (f(x + ht) - f(x - ht)) / 2h + O(h^2)
    """
    inputs, outputs = moving(program), differentiable(program)
    if not (program.smooth and inputs and outputs):
        return
    with device("python"), np.errstate(all="ignore"):
        function = replace(program, outputs=tuple(outputs)).function(WIDE)
        numbers = {name: widened(x.numbers()) for name, x in program.inputs.items()}
        fixed = {name: tnp.asarray(x) for name, x in numbers.items() if name not in inputs}

        def f(*moved: Any) -> Any:
            arguments = dict(zip(inputs, moved)) | fixed
            return function(*(arguments[name] for name in program.inputs))

        random = np.random.default_rng(0)
        primals = [tnp.asarray(numbers[name]) for name in inputs]
        tangents = [tnp.asarray(np.asarray(random.standard_normal(x.shape))) for x in primals]
        values, changes = tfn.jvp(f, tuple(primals), tuple(tangents))
        cotangents = tuple(tnp.asarray(np.asarray(random.standard_normal(y.shape))) for y in values)
        gradients = tfn.vjp(f, *primals)[1](cotangents)
        terms = [np.asarray(a) * np.asarray(b) for a, b in zip(cotangents, changes)]
        duals = [np.asarray(a) * np.asarray(b) for a, b in zip(gradients, tangents)]
        forward, reverse = (sum(float(np.sum(x)) for x in xs) for xs in (terms, duals))
        scale = sum(float(np.sum(np.abs(x))) for x in (*terms, *duals))
    if np.isfinite(scale) and abs(forward - reverse) > 1e-6 * scale + 1e-12:
        raise Disagreement(f"jvp and vjp are no adjoints: {forward!r} and {reverse!r}")
    if not any(step in KINKS for step, _, _ in program.uses):
        _require_differences(f, primals, tangents, values, changes)


def _require_differences(
    f: Any, primals: list[Any], tangents: list[Any], values: Any, changes: Any
) -> None:
    """Central differences at two distances; where they disagree, f is too curved to tell."""

    def difference(h: float) -> list[np.ndarray[Any, Any]]:
        ahead = f(*(x + h * t for x, t in zip(primals, tangents)))
        behind = f(*(x - h * t for x, t in zip(primals, tangents)))
        return [(np.asarray(a) - np.asarray(b)) / (2 * h) for a, b in zip(ahead, behind)]

    for value, change, near, far in zip(values, changes, difference(1e-5), difference(4e-5)):
        scale = np.max(np.abs(near), initial=0) + 1e-3
        if not np.all(np.abs(near - far) < 1e-4 * scale):
            continue
        wrong = np.isfinite(np.asarray(value))  # 0 / 0 has no value between its neighbours
        wrong &= ~(np.abs(np.asarray(change) - near) < 1e-2 * scale)
        if np.any(wrong):
            raise Disagreement("jvp and differences" + shown(np.asarray(change), near, wrong))


@dataclass(frozen=True)
class Check:
    """A way to run a program; `share` programs of a hundred run it."""

    run: Callable[[Program], None]
    share: int


CHECKS = {
    "jit": Check(jit, 100),
    "guarded": Check(guarded, 5),
    "eager": Check(eager, 15),
    "oracle": Check(oracle, 50),
    "vmap": Check(vmap, 20),
    "gradient": Check(gradient, 40),
    "adjoint": Check(adjoint, 40),
    "export": Check(export, 5),
    "sharded": Check(sharded, 10),
    "sanitize": Check(sanitize, 0),
}


def line(program: Program) -> None:
    """Each line by the oracle, against float64 and NumPy."""
    program.evaluated()


def check(name: str, program: Program) -> None:
    """A check by its name, as tests that are kept say it."""
    if name == "line":
        line(program)
    else:
        CHECKS[name].run(program)
