"""The writer of programs: choices decide about steps, and each line is evaluated as it is written.

    x = Input("float32", (3, 5), "normal", 7)     inputs: dtypes, shapes, kinds of numbers
    v1 = xp.tanh(x)                               lines, most of them one step each
    def g2(p3): ...                               functions, for transforms and loops
    v4 = tfn.vmap(g2)(v1)

A line that is ill conditioned is not written (`values.Unfit`), so that all ways to run the program
have to agree on all of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import prod
from random import Random
from textwrap import indent
from typing import Any

import ml_dtypes
import numpy as np

from tests.fuzz.choices import Choices
from tests.fuzz.steps import DISCRETE, EXACT, STEPS
from tests.fuzz.transforms import TRANSFORMS, Function
from tests.fuzz.values import (
    BOOL,
    COMPLEX,
    DTYPES,
    FLOATS,
    LARGEST,
    SIGNED,
    UNSIGNED,
    Numbers,
    Skip,
    Unfit,
    Value,
    evaluate,
    has_both_zeros,
    is_inexact,
    operands,
    precision,
    widened,
)

SIZES = (1, 2, 3, 5, 7, 17, 0, 33, 130)
MAX_STEPS = 14
"""About a third of the steps finds no operands, or gives nothing that can be compared."""
MAX_STEPS_OF_FUNCTION = 3
MAX_DEPTH = 3
STOP_PROGRAM, STOP_FUNCTION = 25, 3
"""One step in so many ends a program, or a function."""


class Broken(AssertionError):
    """A line that the oracle cannot evaluate, or evaluates to other numbers than float64 has."""

    def __init__(self, line: Line, values: dict[str, Value], cause: BaseException) -> None:
        reads = {name: given(values[name].numbers) for name in operands(line.source, values)}
        self.program = Program(reads, (line,), line.names)
        super().__init__(f"{type(cause).__name__}: {cause}")


@dataclass(frozen=True)
class Input:
    """An array that is made anew from a few words."""

    dtype: str
    shape: tuple[int, ...]
    kind: str = "given"
    seed: int = 0
    data: Any = None
    """The numbers themselves, if they are given."""

    def numbers(self) -> Numbers:
        """The array; `strided` ones are views of others, with their axes turned round."""
        random = np.random.default_rng(self.seed)
        shape = self.shape[::-1] if self.kind == "strided" else self.shape
        x = self._numbers(random, shape)
        return x.T if self.kind == "strided" else x

    def _numbers(self, random: np.random.Generator, shape: tuple[int, ...]) -> Numbers:
        dtype = np.dtype(getattr(ml_dtypes, self.dtype, self.dtype))
        if self.kind == "given":
            return np.asarray(self.data).astype(dtype).reshape(shape)
        if dtype.kind == "b":
            return np.asarray(random.integers(0, 2, shape), dtype)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            if self.kind == "special":
                corners = np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1], dtype)
                return np.asarray(random.choice(corners, shape), dtype)
            return np.asarray(random.integers(0, 5, shape), dtype)
        if dtype.kind == "c":
            x = random.standard_normal(shape) + 1j * random.standard_normal(shape)
            return np.asarray(x, dtype)
        x = np.asarray(random.standard_normal(shape))
        if self.kind == "whole":
            x = np.rint(2 * x) + 0.0
        if self.kind == "special":
            ulp, least = precision(self.dtype)
            if self.dtype == "bfloat16":  # matrix instructions take denormals of bfloat16 for zero
                least /= ulp
            corners = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, least, -3 * least, 1.0])
            x = np.where(random.random(shape) < 0.5, x, random.choice(corners, shape))
        return np.asarray(x, dtype)  # NumPy makes a number of an array without axes


def given(x: Numbers) -> Input:
    """An array as it is."""
    return Input(x.dtype.name, x.shape, data=widened(x).tolist())


@dataclass(frozen=True)
class Line:
    """The source that defines some values, after the functions that it calls."""

    names: tuple[str, ...]
    source: str
    exact: bool = False
    by_numpy: bool = False
    coarsest: str = ""
    """Dtype of the least precision inside the functions of the line, if it has any."""

    def reads(self, values: Mapping[str, Value]) -> list[str]:
        """Names of values that the line reads."""
        return [name for name in operands(self.source, values) if name not in self.names]


Use = tuple[str, str, tuple[str, ...]]
"""A step, the dtype of an operand, and the transforms that it is inside of."""


@dataclass(frozen=True)
class Program:
    """Inputs, lines, and the names of the values that are returned."""

    inputs: dict[str, Input]
    lines: tuple[Line, ...]
    outputs: tuple[str, ...]
    smooth: bool = False
    uses: tuple[Use, ...] = field(default=(), repr=False, compare=False)
    values: dict[str, Value] = field(default_factory=dict, repr=False, compare=False)

    def source(self) -> str:
        """The program as a function `f` of its inputs."""
        result = f"return ({', '.join(self.outputs)},)"
        body = "\n".join([*(line.source for line in self.lines), result])
        return f"def f({', '.join(self.inputs)}):\n" + indent(body, "    ") + "\n"

    def slice(self, outputs: tuple[str, ...]) -> Program:
        """The lines and inputs that some outputs need."""
        values, lines, needed = self.evaluated(), [], set(outputs)
        for line in self.lines[::-1]:
            if needed.intersection(line.names):
                lines.append(line)
                needed |= set(line.reads(values))
        inputs = {name: x for name, x in self.inputs.items() if name in needed}
        return replace(self, inputs=inputs, lines=tuple(lines[::-1]), outputs=outputs)

    def function(self, scope: dict[str, Any]) -> Callable[..., Any]:
        """The program as a function of arrays."""
        scope = dict(scope)
        exec(self.source(), scope)
        function: Callable[..., Any] = scope["f"]
        return function

    def evaluated(self, inputs: dict[str, Input] | None = None) -> dict[str, Value]:
        """All values, of these inputs or of others of the same types."""
        if inputs is None and self.values:
            return self.values
        values = {name: Value(x.numbers()) for name, x in (inputs or self.inputs).items()}
        for line in self.lines:
            values |= evaluate_line(line, values)
        return values


def evaluate_line(line: Line, values: dict[str, Value]) -> dict[str, Value]:
    """The values that a line defines."""
    ulp = precision(line.coarsest)[0] if line.coarsest else 0.0
    results = evaluate(line.source, line.names, values, line.exact, line.by_numpy, ulp)
    return dict(zip(line.names, results))


class Writer:
    """A program, or a function inside it, as it is drawn: its lines and their values."""

    def __init__(
        self,
        choices: Choices,
        values: dict[str, Value],
        numbers: count[int],
        smooth: bool,
        inside: tuple[str, ...] = (),
        smooth_program: bool | None = None,
    ) -> None:
        self.choices = choices
        self.values = values
        self.numbers = numbers
        self.smooth = smooth
        self.inside = inside
        self.smooth_program = smooth if smooth_program is None else smooth_program
        self.lines: list[Line] = []
        self.uses: list[Use] = []
        self.dtypes: set[str] = set()
        self.exact_only = False
        self.functions: list[Function] = []

    # What rows ask.

    def one_of(self, *choices: Any) -> Any:
        """One of several."""
        return self.choices.one_of(choices)

    def value(
        self,
        takes: Sequence[str],
        least: int = 0,
        fits: Callable[[Value], bool] = lambda value: True,
        exact: bool = False,
    ) -> str:
        """The name of a value of some dtypes with so many axes; later ones more often."""
        exact = exact or self.exact_only
        fitting = [
            name
            for name, value in self.values.items()
            if value.dtype in takes
            and value.ndim >= least
            and (value.exact or not exact)
            and fits(value)
        ]
        if not fitting:
            raise Skip
        return str(self.one_of(*dict.fromkeys(fitting[::-1])))

    def shape(self, name: str) -> tuple[int, ...]:
        return self.values[name].shape

    def ndim(self, name: str) -> int:
        return self.values[name].ndim

    def dtype(self, name: str) -> str:
        return self.values[name].dtype

    def axis(self, name: str) -> int:
        """An axis, counted from either end."""
        axis = self.choices.below(2 * self.ndim(name))
        return axis if axis < self.ndim(name) else axis - 2 * self.ndim(name)

    def broadcasts(
        self,
        name: str,
        takes: Sequence[str],
        exact: bool = False,
        among: tuple[tuple[int, ...], ...] = (),
    ) -> str:
        """A value whose shape goes with that of another, and with those it is `among`."""
        shapes = (self.shape(name), *among)

        def fits(value: Value) -> bool:
            try:
                return prod(np.broadcast_shapes(value.shape, *shapes)) <= LARGEST
            except ValueError:
                return False

        return self.value(takes, fits=fits, exact=exact)

    def function(
        self,
        transform: str,
        *samples: Value,
        smooth: bool = False,
        gives: Sequence[str] = DTYPES,
        closed: bool = False,
    ) -> Function:
        """A function of some parameters, written on samples of them.

        It may read all values, unless it is to be `closed`.
        Its result is the last value that it makes of the dtypes that it `gives`, or a parameter.
        """
        names = [f"p{next(self.numbers)}" for _ in samples]
        outer = self.values if not closed and self.one_of(False, True) else {}
        child = Writer(
            self.choices,
            {**outer, **dict(zip(names, samples))},
            self.numbers,
            self.smooth or smooth,
            (*self.inside, transform),
            self.smooth_program,
        )
        child.write(MAX_STEPS_OF_FUNCTION, STOP_FUNCTION)
        made = [line.names[0] for line in child.lines]
        result = next((v for v in made[::-1] if child.dtype(v) in gives), names[0])
        body = "\n".join([*(line.source for line in child.lines), f"return {result}"])
        name = f"g{next(self.numbers)}"
        function = Function(
            name,
            f"def {name}({', '.join(names)}):\n" + indent(body, "    ") + "\n",
            child.values[result],
            tuple(child.uses),
            frozenset(child.dtypes | {sample.dtype for sample in samples}),
        )
        self.functions.append(function)
        return function

    # Steps.

    def write(self, largest: int, stop: int) -> None:
        """So many steps at most, each of which can be left out alone; one in `stop` is the last."""
        for _ in range(largest):
            with self.choices.span():
                if self.choices.below(stop + 1) == 0:
                    return
                self.step()

    def step(self) -> None:
        """One more line, if there are operands for it."""
        self.functions = []
        if len(self.inside) < MAX_DEPTH and self.choices.below(10) > 6:
            name = self.one_of(*TRANSFORMS)
            try:
                expression, exact = TRANSFORMS[name].write(self)
            except Skip:
                return
            self.add(name, expression, exact)
            return
        present = {value.dtype for value in self.values.values()}
        name = self.one_of(
            *(name for name, step in STEPS.items() if present.intersection(step.takes))
        )
        step = STEPS[name]
        self.exact_only = step.result == DISCRETE or (step.kink and self.smooth)
        try:
            expression = step.write(self)
        except Skip:
            return
        finally:
            self.exact_only = False
        reads = [self.values[name] for name in operands(expression, self.values)]
        # NumPy computes floating functions of integers in other dtypes; bfloat16 it does not know.
        by_numpy = step.numpy and (
            step.result != "rounded" or all(is_inexact(value.numbers.dtype) for value in reads)
        )
        if step.kink and has_both_zeros(reads):  # of which NumPy takes either
            by_numpy = False
        self.add(name, expression, step.result in (EXACT, DISCRETE), by_numpy)

    def add(self, step: str, expression: str, exact: bool, by_numpy: bool = False) -> None:
        """A line, unless its result is large or depends on rounding too much."""
        name = f"v{next(self.numbers)}"
        functions = "".join(function.source for function in self.functions)
        source = f"{functions}{name} = {expression}"
        reads = [self.values[name].exact for name in operands(source, self.values)]
        inner = {dtype for function in self.functions for dtype in function.dtypes}
        coarsest = max(
            (dtype for dtype in inner if dtype in FLOATS or dtype in COMPLEX),
            key=lambda dtype: (precision(dtype)[0], dtype),
            default="float32" if self.functions else "",
        )
        line = Line((name,), source, exact and all(reads), by_numpy, coarsest)
        try:
            made = evaluate_line(line, self.values)
        except Unfit:
            return
        except Exception as error:
            raise Broken(line, self.values, error) from error
        value = made[name]
        if value.weak:
            line = replace(line, source=f"{functions}{name} = ({expression}).astype({value.dtype})")
            made = {name: replace(value, weak=False)}
        self.values = self.values | made
        self.lines.append(line)
        self.dtypes |= inner | {value.dtype}
        takes = STEPS[step].takes if step in STEPS else TRANSFORMS[step].takes
        dtypes = {self.dtype(name) for name in operands(expression, self.values)}
        self.uses += [(step, dtype, self.inside) for dtype in dtypes.intersection(takes)]
        for function in self.functions:
            self.uses += function.uses


def shape(choices: Choices) -> tuple[int, ...]:
    """A shape of up to three axes."""
    while True:
        sizes = tuple(choices.one_of(SIZES) for _ in range(choices.below(4)))
        if prod(sizes) <= LARGEST:
            return sizes


def inputs(choices: Choices, smooth: bool) -> dict[str, Input]:
    """Two arrays of floats, one of integers, one of truths, one of any dtype."""
    # Whole numbers lie on kinks, where differences of either side are no derivative.
    kinds = ("normal", "strided", *(() if smooth else ("whole", "special")))
    dtype = choices.one_of(("float32", *FLOATS))
    common = shape(choices)
    dtypes = {
        "x": dtype,
        "y": choices.one_of((dtype, *FLOATS)),
        "k": choices.one_of(("int32", "int64", *SIGNED, *UNSIGNED)),
        "m": BOOL[0],
        "z": choices.one_of((*COMPLEX, *DTYPES)),
    }
    return {
        name: Input(
            dtypes[name],
            common if name == "m" or choices.below(2) == 0 else shape(choices),
            choices.one_of(kinds),
            choices.below(100),
        )
        for name in dtypes
    }


def program(choices: Choices) -> Program:
    """A program with the values that are read by none of its lines as outputs.

    Raises:
        Broken: the oracle has no value of a line, or a wrong one.
    """
    smooth = choices.below(2) == 1
    arrays = inputs(choices, smooth)
    values = {name: Value(x.numbers()) for name, x in arrays.items()}
    writer = Writer(choices, values, count(1), smooth)
    writer.write(1 + choices.below(MAX_STEPS), STOP_PROGRAM)
    for _ in range(MAX_STEPS):
        if not writer.lines:
            writer.step()
    lines = tuple(writer.lines)
    made = [name for line in lines for name in line.names]
    read = {name for line in lines for name in line.reads(writer.values)}
    whole = Program(
        arrays,
        lines,
        tuple(name for name in made if name not in read) or ("x",),
        smooth,
        tuple(writer.uses),
        writer.values,
    )
    return whole.slice(whole.outputs)


def drawn(seed: int, number: int) -> Choices:
    """The choices of a program by its number, which are the same everywhere."""
    return Choices(Random(f"{seed}/{number}"))
