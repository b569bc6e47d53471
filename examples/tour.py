"""Follow one program through the compiler: ``python examples/tour.py``.

The program is ``f = lambda x, w: (sin(x) @ w).sum()``.  Twelve stops, each with a few lines of
code, a picture, the file to open next, and one thing that is always true there.  The pictures are
drawn for one fixed machine, so they are the same wherever the tour is taken.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tfn
from tfn import numpy as np
from tfn.config import config
from tfn.inspect.show import View
from tfn.lower.index import laws as table
from tfn.lower.loops import loop_nest
from tfn.lower.loops.opt_ops import Split, show
from tfn.lower.math import decompose
from tfn.lower.report.print.nest import nest
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.oracle import MEANING
from tfn.trace.primitives import PRIMITIVES
from tfn.transforms.batch import BATCH
from tfn.transforms.jvp import JVP
from tfn.transforms.transpose import TRANSPOSE

MACHINE = tfn.Target("x86_64-unknown-linux-gnu", "x86-64-v3", "", 32, 16)


def f(x: Any, w: Any) -> Any:
    """The program of the tour."""
    return (np.sin(x) @ w).sum()


def arguments() -> tuple[tfn.Array, tfn.Array]:
    """A small matrix of angles, and one of weights."""
    x = np.arange(32.0).reshape(4, 8) / 10
    w = np.cos(np.arange(128.0)).reshape(8, 16)
    return x, w


X = tfn.ShapeDtypeStruct((4, 8), "float32")
W = tfn.ShapeDtypeStruct((8, 16), "float32")


def view() -> View:
    """The program at each stage of lowering."""
    return View(tfn.make_jaxpr(f)(X, W), MACHINE)


def use() -> str:
    """A user has a function and asks for its gradient.  Using tfn needs no more than this."""
    x, w = arguments()
    slope = tfn.grad(f)(x, w)
    return f"f(x, w) is {f(x, w):.2f}\nits slope at x[0] is {slope[0].round(2)}"


def trace() -> str:
    """The function runs once, on arrays that have a shape and no data; its operations are recorded.

    Recorded twice, with other names, it is the same object: equal graphs are one node, and identity
    is the key of every cache that follows.
    """
    once = tfn.make_jaxpr(f)(X, W)
    again = tfn.make_jaxpr(lambda angles, weights: np.sum(np.sin(angles) @ weights))(X, W)
    return f"{once}\nthe same object when traced again: {once.function is again.function}"


def transforms() -> str:
    """`jvp` adds a tangent to every value: the row of sin says ``dx * cos x``.

    The tangent program is linear, so it can be transposed, row by row, from the result to the
    input: that is the gradient.  Nothing has been computed, and operations that the gradient does
    not need, here the value of f itself, are gone.
    """
    forward = tfn.make_jaxpr(lambda x, w, dx: tfn.jvp(lambda x: f(x, w), (x,), (dx,)))
    backward = tfn.make_jaxpr(tfn.grad(f))
    return f"JVP\n{forward(X, W, X)}\nthen TRANSPOSE\n{backward(X, W)}"


def dispatch() -> str:
    """One file takes a traced program to a device.

    One device is the definition of every operation in plain NumPy.  All others must agree with it.
    """
    before, answers = config.device, {}
    try:
        for config.device in ("cpu", "python"):
            answers[config.device] = float(f(*arguments()))
    finally:
        config.device = before
    near = abs(answers["cpu"] - answers["python"]) < 1e-4
    return f"devices: {', '.join(tfn.eager.platforms.MAKERS)}\ncpu and python agree: {near}"


def fusion() -> str:
    """A value that must exist in memory gets a barrier; kernels end at barriers.

    The sine is read sixteen times by the product, so it is computed once and stored.
    """
    return str(tfn.show(f, X, W, at="kernels", target=MACHINE))


def ranges() -> str:
    """Every axis becomes a loop, and every movement of data becomes arithmetic on indices."""
    return str(tfn.show(f, X, W, at="ranges", target=MACHINE))


def splits() -> str:
    """A loop is split, and a part of it is bound to vector lanes, registers, or threads.

    First one split by hand on the product, then the splits that the heuristics choose for it.
    """
    body, names = view().stages[1].body, ("f", "d", "b")
    by_hand = loop_nest.nest(body)
    by_hand = Split(by_hand.loops[1].arg.number, 8, Place.LANE).apply(by_hand)
    chosen = view().after("split", body)
    pictures = ("\n".join([*map(show, n.opts), nest(n, names)]) for n in (by_hand, chosen))
    return "\n\nby the heuristics:\n\n".join(pictures)


def laws() -> str:
    """Index arithmetic is made smaller by laws.  A law is data: it is run, printed, and proved.

    Here is one that holds, and one that does not: z3 finds the number that breaks it.
    """
    law = next(law for law in table.LAWS if law.name == "add-minus-zero")
    return f"{law}\n\nbroken on purpose: x + 0.0 -> x\nz3 says: {counterexample()}"


def counterexample() -> str:
    """A float32 that is changed by adding zero, if z3 is installed."""
    try:
        import z3
    except ImportError:
        return "(needs pip install 'tfn[proofs]')"
    x, solver = z3.FP("x", z3.Float32()), z3.Solver()
    solver.add(z3.fpAdd(z3.RNE(), x, z3.FPVal(0.0, z3.Float32())) != x)
    return f"{solver.check()}, {solver.model()}"


def render() -> str:
    """Loops become a list of vector instructions with addresses, and then LLVM IR.

    This is the last kernel, the sum, in both forms.
    """
    linear = tfn.show(f, X, W, at="linear", target=MACHINE).text.split("\n\n")[-1]
    return f"{linear}\n\n{view().program.kernels[-1].text}".rstrip()


def hardware() -> str:
    """Each kernel is compiled by itself.  One more function, the driver, runs them all.

    Every thread calls it; tiles are handed out by a counter, and threads wait for each other at the
    barriers that fusion has placed.  Memory is planned before anything runs.
    """
    driver = view().program.text.split("\n}")[0].splitlines()
    calls = [line for line in driver if line.startswith("define") or " call " in line]
    plan = tfn.show(f, X, W, at="memory", target=MACHINE)
    return "\n".join([*calls, "}", "", str(plan)])


def check() -> str:
    """The slope of the first stop, checked: f goes up by that much when x does."""
    x, w = arguments()
    step = 1e-2
    slope = tfn.grad(f)(x, w)
    up, down = (f(x.at[2, 3].add(h), w) for h in (step, -step))
    measured = (up - down) / (2 * step)
    return f"x[2, 3] has slope {slope[2, 3]:.2f}, measured {measured:.2f}"


def exercise() -> str:
    """Add an operation of your own.  These are the rows that `tanh` has; yours needs the same.

    It has no row in TRANSPOSE, since it is not linear, and no pass has a case for it.  Add a member
    to `Op` and run `make rows`: it names each row that is missing.
    """
    tables = (
        ("trace/primitives.py PRIMITIVES", PRIMITIVES),
        ("trace/oracle.py MEANING", MEANING),
        ("transforms/jvp.py JVP", JVP),
        ("transforms/batch.py BATCH", BATCH),
        ("lower/math/decompose.py DECOMPOSE", decompose.DECOMPOSE),
        ("transforms/transpose.py TRANSPOSE", TRANSPOSE),
    )
    return "\n".join(f"{name}: {'yes' if Op.TANH in table else 'no'}" for name, table in tables)


@dataclass(frozen=True)
class Room:
    """A stop of the tour: what to run, which file to open next, and what holds there."""

    name: str
    visit: Callable[[], str]
    open: str
    holds: str


# fmt: off
ROOMS = (
    Room("Use", use, "tfn/transforms/grad.py",
         "Nothing here knows about machines."),
    Room("Trace", trace, "tfn/trace/uop.py",
         "A node that does not type cannot exist; two equal nodes are one."),
    Room("Transforms", transforms, "tfn/transforms/jvp.py",
         "One table per transform, one row per operation; forward and reverse share them."),
    Room("Dispatch", dispatch, "tfn/eager/loading.py",
         "A graph is lowered and compiled once; after that it is found by identity."),
    Room("Fusion", fusion, "tfn/lower/fuse/boundaries.py",
         "A barrier is the only place where kernels split."),
    Room("Ranges", ranges, "tfn/lower/fuse/ranges.py",
         "Nothing is read out of bounds: padding became a condition on the load."),
    Room("Splits", splits, "tfn/lower/loops/opt_ops.py",
         "A split never changes what is computed, and every one is on record."),
    Room("Laws", laws, "tfn/lower/index/laws.py",
         "Nothing here knows about grad; every law is proved for the numbers it is stated for."),
    Room("Code", render, "tfn/lower/codegen/render/llvm.py",
         "No optimiser runs after this: these instructions are those that run."),
    Room("Hardware", hardware, "tfn/lower/codegen/render/driver.py",
         "The number of threads never changes a result."),
    Room("Check", check, "tests/transforms/test_jvp.py",
         "Every derivative is tested against differences, and every adjoint against its map."),
    Room("Exercise", exercise, "CONTRIBUTING.md",
         "Operations are a closed list; transforms and passes are open tables over it."),
)
# fmt: on


def code(room: Room) -> str:
    """The source of a room's function, without its docstring."""
    source = inspect.getsource(room.visit)
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.FunctionDef)
    return textwrap.dedent("\n".join(source.splitlines()[body.body[1].lineno - 1 :]))


def tell(number: int, room: Room) -> str:
    """One room as text: what it is about, its code, and what that shows."""
    return "\n\n".join(
        [
            f"{number}. {room.name}",
            inspect.getdoc(room.visit) or "",
            textwrap.indent(code(room), "  | "),
            textwrap.indent(room.visit(), "    "),
            f"Open next: {room.open}\nHolds here: {room.holds}",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print all stops, or the first ones; the exit status."""
    parser = argparse.ArgumentParser(description="Follow one program through the compiler.")
    parser.add_argument("--smoke", action="store_true", help="the first three stops")
    rooms = ROOMS[:3] if parser.parse_args(arguments).smoke else ROOMS
    print(("\n\n" + "-" * 80 + "\n\n").join(tell(i, room) for i, room in enumerate(rooms, 1)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
