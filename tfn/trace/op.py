"""Operations: the closed list of them, one meaning each.

`Op` members carry no behaviour: their types are in `primitives.PRIMITIVES`, their meaning in
`oracle.MEANING`, and each transform and each pass has a table of its own.  `spec` lists the ops
that are legal at each stage.
"""

from __future__ import annotations

import enum

from tfn._support.members import plain


@plain
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
    MAX = "max"  # NaN if either is NaN; 0.0 of both zeros
    MIN = "min"  # NaN if either is NaN; -0.0 of both zeros
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
    LDEXP = "ldexp"  # x * 2**n, for integers n as wide as x
    THREEFRY = "threefry2x32"  # one word of the hash of (k0, k1, x0, x1)

    # Movement: elements change their place, not their value.
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
    KERNEL = "kernel"  # a custom kernel, written by the user
    DETACH = "stop_gradient"
    AFTER = "after"  # the first operand, not read before the others exist
    GBARRIER = "optimization_barrier"  # the value is materialised: all loops are closed

    # Many devices: see `trace.sharding` and `transforms.shard`.
    AXIS = "axis_index"  # the number of this device along an axis of the mesh
    COLLECTIVE = "collective"  # values exchanged by the devices along a named axis
    SHARD = "shard"  # the part of a global value that this device holds
    UNSHARD = "unshard"  # the global value whose parts the devices hold
    CONSTRAIN = "sharding_constraint"  # the same value, divided among the devices as stated

    # Inside kernels, over ranges (stages RANGES and SPLIT).
    RANGE = "range"  # an integer variable from 0 to its size
    LOAD = "load"  # an element of a buffer, if the predicate, where there is one, is true
    STORE = "store"
    FOLD = "fold"  # a reduction over ranges
    CARRY = "carry"  # a value that goes from one iteration of a recurrence to the next
    RECUR = "recur"  # a recurrence over a range: first values, next values, stores
    SINK = "sink"  # the stores and recurrences of one kernel
    MEMO = "memo"  # a value that a reduction keeps in a result, or that a later loop reads there
    STAGED = "staged"  # a load whose tile a group of threads copies to its local memory first

    # In order, over vectors (stage LINEAR).
    LOOP = "loop"  # opens a loop: its value is the counter
    ACCUMULATOR = "accumulator"  # a value that the loop carries
    PREFETCH = "prefetch"  # a cache line is read ahead; it may be beyond the end of the buffer
    LEAVE = "leave"  # leaves a loop unless a condition holds
    END = "end"  # closes a loop with the next values of its accumulators
    QUOTIENT = "quotient"  # of integers, towards zero; by neither 0 nor, of signed ones, -1
    DOT2 = "dot2"  # products of neighbours added to the first operand, by one instruction
    TILE = "tile"  # rows of memory as a matrix in a register of a matrix unit
    MMA = "mma"  # the product of two such matrices added to the first operand
    SPILL = "spill"  # such a matrix where its rows can be read
    ROW = "row"  # one of them, as a vector
    SPLAT = "splat"  # a scalar in every lane
    LANES = "lanes"  # 0, 1, ..., width - 1
    SHUFFLE = "shuffle"  # lanes picked from two vectors, by their numbers
    ACROSS = "across"  # a reduction over the lanes
    LOCAL_MEMORY = "local_memory"  # memory that the threads of a group share
    BARRIER = "barrier"  # all threads of a group wait for each other
    COPY = "copy"  # starts a copy of elements to local memory, and does not wait for it
    COPY_GROUP = "copy_group"  # the copies that a thread has started since the last one
    COPY_WAIT = "copy_wait"  # until all but the last groups of copies of the thread have arrived
    EXCHANGE = "exchange"  # the value that another thread of the warp has
    FRAGMENT = "fragment"  # an element of matrices in local memory, as a warp multiplies them
    WARP_MMA = "warp_mma"  # an element of a product of matrices that a warp holds, plus a sum
    GROUP_MMA = "group_mma"  # the same by four warps, whose operands are in local memory
    GROUP_WAIT = "group_wait"  # a sum, once all products of its four warps are done


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
    Op.CAST, Op.BITCAST, Op.WHERE, Op.FMA, Op.LDEXP, Op.THREEFRY, Op.DETACH,
})
PARTS = frozenset({Op.COMPLEX, Op.REAL, Op.IMAG})
"""Elementwise too, but no kernel sees them: below the JAXPR a complex value is two real ones."""
MOVEMENT = frozenset({
    Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.PAD, Op.SHRINK, Op.FLIP, Op.CONCAT,
})
STORAGE = MOVEMENT | frozenset({
    Op.WHERE, Op.GATHER, Op.DETACH, Op.AFTER, Op.GBARRIER, Op.CONSTRAIN,
})
"""Ops that move elements and compute nothing: a narrow value goes through them as it is."""
LOOPS = frozenset({Op.SCAN, Op.WHILE, Op.COND, Op.CALL})
"""Control flow: the ops whose sources include functions, that run as programs of their own."""
SEVERAL = frozenset({Op.SORT, Op.TUPLE, Op.HOST, Op.KERNEL, Op.CUSTOM, Op.LINEAR}) | LOOPS
"""The ops that have several results, each taken by a GET; see `regions.results`."""
MANUAL = frozenset({Op.AXIS, Op.COLLECTIVE, Op.SHARD, Op.UNSHARD, Op.CONSTRAIN})
"""The ops of many devices; none is left when a program for the devices of a process is lowered."""
NEAR_ONE = "near one"
"""The argument of an LDEXP that scales numbers from 1/2 to 2: two factors suffice to emulate it."""
MONOIDS = (Op.ADD, Op.MUL, Op.MAX, Op.MIN)
"""The reductions: associative, with an identity.  On bool, MAX is any and MIN is all."""
# fmt: on

Shape = tuple[int, ...]
