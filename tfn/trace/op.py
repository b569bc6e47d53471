"""The closed list of operations, one meaning each.

`Op` members carry no behaviour: their types are in `primitives.PRIMITIVES`, their meaning in
`oracle.MEANING`, and each transform and each pass has a table of its own.  Which stage may hold
which op is said in `spec`.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfn.dtypes import DType


class Op(enum.Enum):
    """An operation of the one language."""

    # Leaves.
    CONST = "const"  # one value, in a shape
    PARAM = "param"  # a parameter of a closed function, by position
    LEAF = "leaf"  # an input of a running trace, or an array that a trace captured
    IOTA = "iota"  # 0, 1, ..., size - 1

    # Elementwise, one operand.
    NEG = "neg"
    ABS = "abs"
    SIGN = "sign"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"  # half to even
    NOT = "not"  # bitwise; logical on bool
    EXP = "exp"
    EXP2 = "exp2"
    EXPM1 = "expm1"
    LOG = "log"
    LOG2 = "log2"
    LOG1P = "log1p"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    SINH = "sinh"
    COSH = "cosh"
    TANH = "tanh"
    ASINH = "asinh"
    ACOSH = "acosh"
    ATANH = "atanh"
    LOGISTIC = "logistic"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    CBRT = "cbrt"
    ERF = "erf"
    ERFC = "erfc"
    ERFINV = "erf_inv"
    LGAMMA = "lgamma"
    DIGAMMA = "digamma"
    CAST = "convert_element_type"
    BITCAST = "bitcast_convert_type"

    # Complex numbers and their parts, element by element.
    COMPLEX = "complex"
    REAL = "real"
    IMAG = "imag"

    # Elementwise, two operands.
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"  # floating only
    FLOORDIV = "floor_divide"  # integers; towards minus infinity
    MOD = "mod"  # the sign of the divisor, as Python
    POW = "pow"  # floating only
    ATAN2 = "atan2"
    MAX = "max"  # NaN if either is NaN
    MIN = "min"
    AND = "and"
    OR = "or"
    XOR = "xor"
    SHL = "shift_left"
    SHR = "shift_right"  # arithmetic if signed, logical if unsigned
    LT = "lt"
    LE = "le"
    EQ = "eq"
    NE = "ne"

    # Elementwise, three and more operands.
    WHERE = "select"
    FMA = "fma"  # x * y + z, rounded once
    THREEFRY = "threefry2x32"  # one word of the hash of (k0, k1, x0, x1)

    # Movement: which element goes where, and nothing else.
    RESHAPE = "reshape"
    PERMUTE = "transpose"
    EXPAND = "broadcast"  # axes of size 1 to size n
    PAD = "pad"  # low, high and interior, with a value
    SHRINK = "slice"  # start, stop and step
    FLIP = "rev"
    CONCAT = "concatenate"

    # Contractions, reductions, irregular access.
    REDUCE = "reduce"
    DOT = "dot_general"
    CONV = "conv_general_dilated"
    FFT = "fft"  # the discrete Fourier transform over the last axes, and its inverse
    GATHER = "gather"
    SCATTER = "scatter"
    SORT = "sort"

    # Structure.
    TUPLE = "tuple"
    GET = "get"  # one value of a tuple
    FUNCTION = "function"  # a closed function: outputs over numbered parameters
    SCAN = "scan"  # a function repeated a known number of times, over slices
    WHILE = "while"  # a function repeated while another one holds
    COND = "cond"  # one of several functions, chosen by an index
    CALL = "call"  # a function with a name, compiled once for all its calls
    HOST = "host"  # a function of the host, called with concrete arrays
    CUSTOM = "custom"  # a function with rules of its own for derivatives
    LINEAR = "linear"  # a linear function of which the transpose is given
    DETACH = "stop_gradient"
    AFTER = "after"  # the first operand, not read before the others exist
    GBARRIER = "optimization_barrier"  # the value is materialised: all loops are closed

    # Inside kernels, over ranges (stages RANGES and SPLIT).
    RANGE = "range"  # an integer variable from 0 to its size
    LOAD = "load"  # an element of a buffer; the gate, if any, says when
    STORE = "store"
    FOLD = "fold"  # a reduction over ranges
    CARRY = "carry"  # a value that goes from one iteration of a recurrence to the next
    RECUR = "recur"  # a recurrence over a range: first values, next values, stores
    SINK = "sink"  # the stores and recurrences of one kernel

    # In order, over vectors (stage LINEAR).
    LOOP = "loop"  # opens a loop: its value is the counter
    ACCUMULATOR = "accumulator"  # a value that the loop carries
    LEAVE = "leave"  # ends a loop unless a condition holds
    END = "end"  # closes a loop with the next values of its accumulators
    SPLAT = "splat"  # a scalar in every lane
    LANES = "lanes"  # 0, 1, ..., width - 1
    SHUFFLE = "shuffle"  # lanes picked from two vectors, by their numbers
    ACROSS = "across"  # a reduction over the lanes

    __hash__ = object.__hash__  # identity; Enum's own hash is slow Python


# fmt: off
UNARY = frozenset({
    Op.NEG, Op.ABS, Op.SIGN, Op.FLOOR, Op.CEIL, Op.ROUND, Op.NOT, Op.EXP, Op.EXP2, Op.EXPM1,
    Op.LOG, Op.LOG2, Op.LOG1P, Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN, Op.SINH,
    Op.COSH, Op.TANH, Op.ASINH, Op.ACOSH, Op.ATANH, Op.LOGISTIC, Op.SQRT, Op.RSQRT, Op.CBRT,
    Op.ERF, Op.ERFC, Op.ERFINV, Op.LGAMMA, Op.DIGAMMA,
})
COMPARE = frozenset({Op.LT, Op.LE, Op.EQ, Op.NE})
BINARY = frozenset({
    Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.FLOORDIV, Op.MOD, Op.POW, Op.ATAN2, Op.MAX, Op.MIN,
    Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR,
})
ELEMENTWISE = UNARY | COMPARE | BINARY | frozenset({
    Op.CAST, Op.BITCAST, Op.WHERE, Op.FMA, Op.THREEFRY, Op.DETACH,
})
PARTS = frozenset({Op.COMPLEX, Op.REAL, Op.IMAG})
"""Elementwise too, but no kernel sees them: below the JAXPR a complex value is two real ones."""
MOVEMENT = frozenset({
    Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.PAD, Op.SHRINK, Op.FLIP, Op.CONCAT,
})
LOOPS = frozenset({Op.SCAN, Op.WHILE, Op.COND, Op.CALL})
"""Control flow: the ops whose sources include functions, that run as programs of their own."""
SEVERAL = frozenset({Op.SORT, Op.TUPLE, Op.HOST, Op.CUSTOM, Op.LINEAR}) | LOOPS
"""The ops that have several results, each taken by a GET; see `primitives.results`."""
MONOIDS = (Op.ADD, Op.MUL, Op.MAX, Op.MIN)
"""The reductions: associative, with an identity.  On bool, MAX is any and MIN is all."""
# fmt: on

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Const:
    """One value by dtype and bits, so that 1, 1.0, True, 0.0 and -0.0 stay apart."""

    dtype: DType
    bits: int
    shape: Shape

    @property
    def value(self) -> Any:
        """The value as a NumPy scalar."""
        if self.dtype.kind == "c":
            size = self.dtype.itemsize
            return np.frombuffer(self.bits.to_bytes(size, sys.byteorder), self.dtype)[0]
        unsigned = np.array(self.bits, f"u{self.dtype.itemsize}")
        return unsigned.view(self.dtype)[()]


@dataclass(frozen=True, slots=True)
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
        trace: the trace that made it, None for a captured array.
    """

    __slots__ = ("shape", "dtype", "value", "name", "trace")

    def __init__(self, shape: Shape, dtype: DType, value: Any = None, name: str = "",
                 trace: Any = None) -> None:  # fmt: skip
        self.shape, self.dtype, self.value = shape, dtype, value
        self.name, self.trace = name, trace


@dataclass(frozen=True, slots=True)
class Iota:
    """Count `size` elements from zero."""

    size: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Pad:
    """Elements added before, after, and between, per axis; none of them negative."""

    low: Shape
    high: Shape
    interior: Shape


@dataclass(frozen=True, slots=True)
class Shrink:
    """Elements start, start + step, ... below stop, per axis."""

    start: Shape
    stop: Shape
    step: Shape


@dataclass(frozen=True, slots=True)
class Reduce:
    """Which monoid over which axes; the axes vanish."""

    op: Op
    axes: Shape


@dataclass(frozen=True, slots=True)
class Dot:
    """Axes contracted and axes kept in step; the output is (batch, free of a, free of b).

    The products are summed in at least 32 bits and rounded to `dtype` once.
    """

    contract_a: Shape
    contract_b: Shape
    batch_a: Shape
    batch_b: Shape
    dtype: DType


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution of (batch, *space, channels) with (*window, channels / groups, features).

    `padding` may be negative.  `batch_groups` groups the batch instead, as the gradient to the
    weights needs.
    """

    strides: Shape
    padding: tuple[tuple[int, int], ...]
    dilation_x: Shape
    dilation_w: Shape
    groups: int
    batch_groups: int
    dtype: DType


class FftType(enum.Enum):
    """Which Fourier transform: of complex or real values, or back to them."""

    FFT = "fft"
    IFFT = "ifft"  # divided by the number of elements
    RFFT = "rfft"  # of real values: only the first half of the last axis, which tells the rest
    IRFFT = "irfft"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Fft:
    """Transforms of `lengths` elements along the last axes; the lengths are those of the values
    that are not halved.
    """

    kind: FftType
    lengths: Shape


@dataclass(frozen=True, slots=True)
class Gather:
    """Windows of `sizes` at the start points that the last axis of the indices holds.

    Operand (*batch, *dims), indices (*batch, *points, k): a start moves the first k of dims and
    is clamped, so that the window fits.  Result (*batch, *points, *sizes).
    """

    batch: int
    sizes: Shape


@dataclass(frozen=True, slots=True)
class Scatter:
    """The inverse of `Gather`: updates (*batch, *points, *sizes) are combined into the operand.

    `op` is one of the monoids, or WHERE to set (the last update of an element wins).  A window
    that does not fit is dropped whole.
    """

    batch: int
    op: Op


@dataclass(frozen=True, slots=True)
class Sort:
    """A stable ascending sort of all operands together along the last axis.

    The first `keys` operands are compared in order; NaN comes last.
    """

    keys: int


@dataclass(frozen=True, slots=True)
class Function:
    """The parameters of a closed function and the name it prints under."""

    params: tuple[Param, ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """A body (consts, carries, slices) -> (carries, slices) repeated over the slices of arrays.

    Sources: the body, consts, first carries, arrays whose first axis is `length`.  Results: last
    carries, arrays of the slices that the body gave.  With `reverse` the last slice comes first.
    """

    length: int
    reverse: bool
    consts: int
    carries: int


@dataclass(frozen=True, slots=True)
class While:
    """A body (body consts, carries) -> carries while a condition (cond consts, carries) holds.

    Sources: the condition, the body, cond consts, body consts, first carries.  Results: last
    carries.
    """

    cond_consts: int
    body_consts: int


@dataclass(frozen=True, slots=True)
class Cond:
    """One of several functions of the same operands.

    Sources: an int32 index, which is clamped, the functions, the operands.  Results: those of
    the chosen function.
    """

    branches: int


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the operands that follow it, and what it is called.

    Sources: the function, the operands.  Results: those of the function.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Custom:
    """A function that has rules of its own, which derivatives ask before they look inside.

    Sources: the function, the operands.  Results: those of the function.  Evaluated, it is inlined.

    Attributes:
        name: what the user calls it.
        rules: hashable; see `transforms.rules.Rules`.
    """

    name: str
    rules: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class Linear:
    """A function that is linear in some operands, known by its transpose.

    Sources: residuals, then what it is linear in.  It stands only between the two halves of a
    reverse mode; forward mode replaces it by what it means, so nobody has to evaluate it.

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
    """How a function of the host is called for many lanes at once."""

    SEQUENTIAL = "sequential"  # once for each lane, in order
    EXPAND = "expand_dims"  # once; what is the same in all lanes has an axis of size 1 in front
    BROADCAST = "broadcast_all"  # once; everything has the new axis
    AS_IT_IS = "legacy_vectorized"  # once; what is the same in all lanes has no new axis
    REFUSE = "refuse"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Host:
    """A function of the host, as ``run(results, operands)``.

    It gets lists of NumPy arrays: the results as memory to write to, and the operands, which it
    may only read, and only until it returns.  What compares equal may be called once for all.

    Attributes:
        run: hashable; a function, or a frozen object that can be called.
        results: shape and dtype of each result.
        vmap: how it is called for many lanes.
        acts: whether it does something beside, so that it must be called once each time, in order:
            then its first operand and its first result are tokens; see `trace.effects`.
    """

    run: Callable[[Sequence[Any], Sequence[Any]], None]
    results: tuple[tuple[Shape, DType], ...]
    vmap: VmapMethod
    acts: bool = False


class Place(enum.Enum):
    """Where a range runs."""

    LOOP = "loop"
    PARALLEL = "parallel"  # tiles handed out to the threads
    UPCAST = "upcast"  # unrolled: one value per coordinate
    LANE = "lane"  # the vector axis: at most one in a nest

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Range:
    """A loop variable of a kernel: a number that tells it from others, its size, its place."""

    number: int
    size: int
    place: Place = Place.LOOP


@dataclass(frozen=True, slots=True)
class Fold:
    """A monoid over the ranges that follow the body among the sources."""

    op: Op


@dataclass(frozen=True, slots=True)
class Carry:
    """One of the values that a recurrence carries, by number; its sources are where it varies."""

    number: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Recur:
    """A loop in a kernel that carries values.

    Sources: the range, the carries at first, the same in the next iteration, the condition to go
    on if it is `conditional`, stores of each iteration, as many as `stores`, and stores of the
    last carries, whose values are CARRY nodes.
    """

    carries: int
    stores: int
    conditional: bool


@dataclass(frozen=True, slots=True)
class Access:
    """How an ordered load or store meets memory: at base + offset + stride * lane."""

    offset: int
    lanes: int
    stride: int
