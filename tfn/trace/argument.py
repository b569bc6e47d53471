"""Static arguments of operations: the `arg` of a node, one frozen class for each op.

An op that needs one plain value has that as its argument: a shape, a dtype, a number.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from tfn._support.frozen import frozen
from tfn._support.members import plain
from tfn.dtypes import DType
from tfn.trace.op import Op, Shape

HostFunction = Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], None]
"""``run(results, operands)`` on NumPy arrays: reads the operands, writes into the results."""


@frozen
class Const:
    """One value by dtype and bits, so that 1, 1.0, True, 0.0 and -0.0 stay apart."""

    dtype: DType
    bits: int
    shape: Shape

    @property
    def value(self) -> Any:  # np.generic, or a scalar type of ml_dtypes
        """The value as a NumPy scalar."""
        if self.dtype.kind == "c":
            size = self.dtype.itemsize
            return np.frombuffer(self.bits.to_bytes(size, sys.byteorder), self.dtype)[0]
        unsigned = np.array(self.bits, f"u{self.dtype.itemsize}")
        return unsigned.view(self.dtype)[()]


@frozen
class Param:
    """A parameter: its position, shape and dtype."""

    index: int
    shape: Shape
    dtype: DType


class Leaf:
    """An input of a running trace, or a captured array; each one is itself and no other.

    Attributes:
        shape: of the value.
        dtype: of the value.
        value: the array behind it, or None while only shape and dtype are known.
        name: what the user calls it, for error messages.
        is_input: whether it is an input of a trace, not a captured array.
        varying: the manual axes over which it is known to vary; see `transforms.shard.vary`.
        layout: how it is divided over explicit axes of a mesh; see `transforms.shard.layout`.
    """

    __slots__ = ("shape", "dtype", "value", "name", "is_input", "varying", "layout")

    def __init__(
        self,
        shape: Shape,
        dtype: DType,
        value: object = None,
        name: str = "",
        is_input: bool = False,
    ) -> None:
        self.shape, self.dtype, self.value = shape, dtype, value
        self.name, self.is_input = name, is_input
        self.varying: frozenset[Any] = frozenset()
        self.layout: Any = None


@frozen
class Iota:
    """Count `size` elements from zero."""

    size: int
    dtype: DType


@frozen
class Pad:
    """Elements added before, after, and between, per axis; none of them negative."""

    low: Shape
    high: Shape
    interior: Shape


@frozen
class Shrink:
    """Elements start, start + step, ... below stop, per axis."""

    start: Shape
    stop: Shape
    step: Shape


@frozen
class Reduce:
    """A reduction by a monoid over axes, which vanish.

    Attributes:
        index: None, or the dtype of an argmax or argmin: the result is the index of the first
            extreme along the one axis.  NaN is more extreme than all numbers.
    """

    op: Op
    axes: Shape
    index: DType | None = None


@frozen
class Dot:
    """A contraction over some axes, with batch axes; the output is (batch, free of a, free of b).

    The products are summed in at least 32 bits and rounded to `dtype` once.  With `tf32` factors of
    float32 are rounded to 10 bits of mantissa before, to nearest, ties to even.
    """

    contract_a: Shape
    contract_b: Shape
    batch_a: Shape
    batch_b: Shape
    dtype: DType
    tf32: bool = False


@frozen
class Conv:
    """A convolution of (batch, *space, channels) with (*window, channels / groups, features).

    `padding` is with zeros, and may be negative; between elements that `dilation_x` sets apart
    there is nothing: no weight is multiplied.  `batch_groups` groups the batch instead, as the
    gradient to the weights needs.  Features are counted as (groups, batch_groups, features of
    one pair of them).  `tf32` is as for `Dot`.
    """

    strides: Shape
    padding: tuple[tuple[int, int], ...]
    dilation_x: Shape
    dilation_w: Shape
    groups: int
    batch_groups: int
    dtype: DType
    tf32: bool = False


class FftType(enum.Enum):
    """Kinds of Fourier transforms: of complex or real values, or back to them."""

    FFT = "fft"
    IFFT = "ifft"  # divided by the number of elements
    RFFT = "rfft"  # of real values: only the first half of the last axis, which determines the rest
    IRFFT = "irfft"

    __hash__ = object.__hash__


@frozen
class Fft:
    """Transforms of `lengths` elements along the last axes; the lengths are those of the values
    that are not halved.
    """

    kind: FftType
    lengths: Shape


@frozen
class Gather:
    """Windows of `sizes` at the start points that the last axis of the indices holds.

    Operand (*batch, *dims), indices (*batch, *points, k): a start moves the first k of dims and
    is clamped, so that the window fits.  Result (*batch, *points, *sizes).
    """

    batch: int
    sizes: Shape


@frozen
class Scatter:
    """The inverse of `Gather`: updates (*batch, *points, *sizes) are combined into the operand.

    `op` is one of the monoids, or WHERE to set (the last update of an element wins).  A window
    that does not fit is dropped whole.  `distinct` windows meet no element twice, so that they have
    no order; with `whole` they all fit, and meet every element.
    """

    batch: int
    op: Op
    distinct: bool = False
    whole: bool = False


@frozen
class Sort:
    """A stable ascending sort of all operands together along the last axis.

    The first `keys` operands are compared in order; NaN comes last.  `shared` says that the threads
    of a group sort a row together, in their local memory.  With `largest` the results are so many
    elements of each row, the largest first; of equal ones the first comes first.
    """

    keys: int
    shared: bool = False
    largest: int | None = None


@frozen
class Function:
    """The parameters of a closed function and the name it prints under."""

    params: tuple[Param, ...]


@frozen
class Scan:
    """A body (consts, carries, slices) -> (carries, slices) repeated over the slices of arrays.

    Sources: the body, consts, first carries, arrays whose first axis is `length`.  Results: last
    carries, arrays of the slices that the body gave.  With `reverse` the last slice comes first.
    The body of an `associative` one combines its carries with as many slices, gives the result as
    both, and may be applied in any grouping.
    """

    length: int
    reverse: bool
    consts: int
    carries: int
    associative: bool = False


@frozen
class While:
    """A body (body consts, carries) -> carries while a condition (cond consts, carries) holds.

    Sources: the condition, the body, cond consts, body consts, first carries.  Results: last
    carries.

    Attributes:
        names: what the user calls the carries, for messages.
    """

    cond_consts: int
    body_consts: int
    names: tuple[str, ...] = field(default=(), compare=False, repr=False)


@frozen
class Cond:
    """One of several functions of the same operands.

    Sources: an int32 index, which is clamped, the functions, the operands.  Results: those of
    the chosen function.
    """

    branches: int


@frozen
class Call:
    """A function of the operands that follow it, and what it is called.

    Sources: the function, the operands.  Results: those of the function.
    """

    name: str


@frozen
class Custom:
    """A function with transform rules of its own, which derivatives use instead of its body.

    Sources: the function, the operands.  Results: those of the function.  Evaluated, it is inlined.

    Attributes:
        name: what the user calls it.
        rules: hashable; see `transforms.rules.Rules`.
    """

    name: str
    rules: Any = field(repr=False)


@frozen
class Linear:
    """A function that is linear in some operands, known by its transpose.

    Sources: residuals, then what it is linear in.  It exists only between the forward and the
    backward pass of reverse mode; forward mode replaces it by its meaning: it is never evaluated.

    Attributes:
        name: what the user calls it.
        residuals: how many.
        results: shape and dtype of each result.
        rules: hashable; see `transforms.rules.LinearRules`.
    """

    name: str
    residuals: int
    results: tuple[tuple[Shape, DType], ...]
    rules: Any = field(repr=False)


class VmapMethod(enum.Enum):
    """Ways to call a function of the host under `vmap`."""

    SEQUENTIAL = "sequential"  # once for each lane, in order
    EXPAND = "expand_dims"  # once; what is the same in all lanes has an axis of size 1 in front
    BROADCAST = "broadcast_all"  # once; everything has the new axis
    AS_IT_IS = "legacy_vectorized"  # once; what is the same in all lanes has no new axis
    FIRST = "first"  # once, for the first lane whose first operand after the token is not zero
    REFUSE = "refuse"

    __hash__ = object.__hash__


@frozen
class Host:
    """A function of the host, as ``run(results, operands)``.

    It gets lists of NumPy arrays: the results as memory to write to, and the operands, which it
    may only read, and only until it returns.  Equal calls may be merged into one.  If the function
    has a method ``bound(results, operands)``, that is called once for each set of buffers; the
    function of no arguments that it returns is then called whenever the same buffers are passed.
    If it has a method ``grid_program(kinds)``, that gives a Jaxpr to be run in its place on a grid,
    for operands of these shapes and dtypes, or None.

    Attributes:
        run: hashable; a function, or a frozen object that can be called.
        results: shape and dtype of each result.
        vmap: how it is called for many lanes.
        has_effects: whether it must be called exactly once each time, in order: then its first
            operand and its first result are tokens; see `trace.effects`.
        inspects: a function to be called with the sharding of the second operand, when a program is
            divided, in the place of the call; None of all other calls.
        defers: whether the program may go on before the results are written, and wait for them
            later; then `run` has methods ``begun`` and ``ended``, in the way of ``bound``.
    """

    run: HostFunction
    results: tuple[tuple[Shape, DType], ...]
    vmap: VmapMethod
    has_effects: bool = False
    inspects: Any = None
    defers: bool = False


@frozen
class HostSlot:
    """A placeholder for a function of the host, bound when a program is prepared to run.

    Programs are cached for long, and functions of the user may hold arrays: so a program refers to
    them by number.

    Attributes:
        number: the index among the functions that the program is bound to.
        name: of the first function that it was lowered for.
    """

    number: int
    name: str

    def __call__(self, results: Sequence[np.ndarray], operands: Sequence[np.ndarray]) -> None:
        """Never called: `filled` puts a function in its place."""
        raise AssertionError(f"the program was not given the function {self}")

    def __str__(self) -> str:
        return self.name


def filled(run: Any, functions: Sequence[HostFunction]) -> Any:
    """A function of the host with its `HostSlot`, if it has one, replaced by the real function."""
    if isinstance(run, HostSlot):
        return functions[run.number] if functions else run
    inner = getattr(run, "run", None)
    return replace(run, run=filled(inner, functions)) if isinstance(inner, HostSlot) else run


@frozen
class CustomKernel:
    """A custom kernel: written by the user, for operands of given types.

    Attributes:
        name: what it is called.
        takes, results: shape and dtype of each operand and result.
        run: its meaning on NumPy arrays, as that of `Host`.
        body: the SINK over ranges, on flat buffers: parameters are the results, then the operands.
        text: LLVM IR instead of a body.
        tiles: the number of independent parts of the text, which threads share.
        batch: ``(size, mapped, *operands) -> (results, mapped)``: a batching rule of the user's.
    """

    name: str
    takes: tuple[tuple[Shape, DType], ...]
    results: tuple[tuple[Shape, DType], ...]
    run: HostFunction = field(repr=False)
    body: Any = field(default=None, repr=False)
    text: str = field(default="", repr=False)
    tiles: int = field(default=1, repr=False)
    batch: Callable[..., Any] | None = field(default=None, repr=False)


@plain
class Likelihood(enum.Enum):
    """The frequency with which a condition of a WHERE holds: for code, no part of its meaning."""

    RARE = "rare"


class Place(enum.Enum):
    """Places at which a range runs, as loop or as parallel hardware."""

    LOOP = "loop"
    PARALLEL = "parallel"  # tiles handed out to the threads
    UPCAST = "upcast"  # unrolled: one value per coordinate
    LANE = "lane"  # the vector axis: at most one in a nest
    UNIT = "unit"  # iterations that the matrix unit takes at once
    GROUP = "group"  # groups of threads, all at once: the grid
    LOCAL = "local"  # the threads of a group, which share local memory


@frozen
class Range:
    """A loop variable of a kernel: its number, unique in the kernel, its size, its place."""

    number: int
    size: int
    place: Place = Place.LOOP


@frozen
class Fold:
    """A monoid over the ranges that follow the body among the sources.

    Attributes:
        index: None, or the dtype of an argmax or argmin; then the body is a TUPLE of a value and
            its index, which rises from iteration to iteration, and the result is the index.
        interleaved: whether the last axis of the reduced value is among the ranges: vectors run
            along it.  Like `product` it is known before sizes are: see `Target.batch_invariant`.
        product: whether it is that of a contraction, whose products are not rounded.
        tf32: whether its factors, of float32, have 10 bits of mantissa.
    """

    op: Op
    index: DType | None = None
    interleaved: bool = False
    product: bool = False
    tf32: bool = False


@frozen
class Carry:
    """A loop-carried value of a recurrence, by number; its sources are the ranges it varies on."""

    number: int
    dtype: DType


@frozen
class Recur:
    """A loop in a kernel with loop-carried values.

    Sources: the range, the carries at first, the same in the next iteration, the condition to go
    on if it is `conditional`, stores of each iteration, as many as `stores`, and stores of the
    last carries, whose values are CARRY nodes.  The condition is a scalar, or one of each element:
    then elements go on until none of those in their vector does.

    A loop that carries one reduction may be shared by the `threads` of a group, each of which has
    some `elements` at a time.  A loop of one thread takes so many iterations at a time.
    """

    carried: int
    stores: int
    conditional: bool
    threads: int = 1
    elements: int = 1


@frozen
class Access:
    """The addresses of a vector load or store: base + offset + stride * lane, in elements."""

    offset: int
    lanes: int
    stride: int
