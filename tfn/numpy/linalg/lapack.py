"""Routines of LAPACK on stacks of matrices: one call of native code for a whole stack.

LAPACK stores matrices by columns, so operands and results are transposes of the mathematical ones.
A routine works in place, on a copy of its last operand, and returns a code for each matrix: 0 for
success, else the position of the failure.

The routines are those of SciPy, by their addresses; they take pointers only.

Source: E. Anderson et al., "LAPACK Users' Guide", 3rd edition, 1999.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache as once
from math import prod
from typing import Any

import numpy as np

from tfn._support.frozen import frozen
from tfn.dtypes import DType
from tfn.hw.cpu.batched_call import COPY_FROM, COPY_TO, FIRST, Calls
from tfn.lower.graph.host_libraries import lapack
from tfn.numpy.linalg import block_triangular
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.op import Shape

Data = np.ndarray[Any, Any]


@frozen
class Scratch:
    """Workspace of a routine, one for all matrices.

    Attributes:
        kind: character of its dtype.
        size: number of elements; None if the routine is queried for it, and gets it as the next
            argument.
    """

    kind: str
    size: int | None = None


class Bound:
    """A routine on some arrays, ready to be run again, on these or on others of their types.

    Args:
        calls: the calls of the routine.
        given: of the words that are addresses of the arrays, which array's.
        written: of the words that are addresses of workspaces, these.
    """

    __slots__ = ("_calls", "_given", "_written")

    def __init__(self, calls: Calls, given: Mapping[int, int], written: Mapping[int, Data]) -> None:
        self._calls, self._given, self._written = calls, given, written

    def __call__(self) -> None:
        """Runs the routine once."""
        self._calls()

    def elsewhere(self, addresses: Sequence[int]) -> Calls:
        """The routine on arrays at these addresses, with workspaces of its own.

        In a loop an operand has another address in each step: this takes a tenth of `bound`.
        """
        words = {word: addresses[i] for word, i in self._given.items()}
        own = {id(x): x.copy() for x in self._written.values()}
        words |= {word: own[id(x)].ctypes.data for word, x in self._written.items()}
        return self._calls.moved(words, (self._calls, own))


Argument = Data | Scratch | np.generic | str | int
Call = tuple[str, Data, list[Argument]]
"""The name without its first letter, the array that is overwritten, and the arguments."""


@frozen
class Routine:
    """A routine as a function of the host.

    Attributes:
        name: name of its row of `CALLS`.
        flags: a letter for each of its choices.
    """

    name: str
    flags: str = ""

    def __call__(self, results: Sequence[Data], operands: Sequence[Data]) -> None:
        """Runs the routine once."""
        self.bound(results, [np.ascontiguousarray(x) for x in operands])()

    def bound(self, results: Sequence[Data], operands: Sequence[Data]) -> Bound:
        """The call of the routine on these arrays, ready to be run again.

        Args:
            results: arrays that are written.
            operands: arrays that are read.
        """
        source = operands[-1]
        name, target, arguments = CALLS[self.name](self.flags, results, operands)
        name = "sdcz"["fdFD".index(source.dtype.char)] + name
        # The sizes of workspaces depend on sizes and flags, not on elements of arrays.
        sizes_key = tuple([None if isinstance(x, np.ndarray) else x for x in arguments])
        memory = list(_filled(arguments, _sizes(name, sizes_key)))
        count = prod(source.shape[:-2])
        addresses = [
            (x.ctypes.data, x.nbytes // count if count and moves else 0) for x, moves in memory
        ]
        copy = target.ctypes.data, source.ctypes.data, source.nbytes
        read = {COPY_TO: target, COPY_FROM: source}
        read |= {FIRST + 2 * i: x for i, (x, _) in enumerate(memory)}
        places = {id(x): i for i, x in enumerate([*results, *operands])}
        given = {word: places[id(x)] for word, x in read.items() if id(x) in places}
        written = {w: x for w, x in read.items() if w not in given and x.dtype != np.uint8}
        keeps = memory, target, results, operands
        return Bound(Calls(lapack(name), count, addresses, copy, keeps), given, written)

    def grid_program(self, kinds: tuple[tuple[Shape, DType], ...]) -> Jaxpr | None:
        """See `tfn.trace.argument.Host`."""
        program = GRID_PROGRAMS.get(self.name)
        return program and program(self.flags, kinds)

    def __str__(self) -> str:
        return self.name


def _filled(
    arguments: Iterable[Argument | None], sizes: Sequence[int]
) -> Iterable[tuple[Data, bool]]:
    """The memory of each argument, and whether it advances from matrix to matrix."""
    remaining = iter(sizes)
    for x in arguments:
        if isinstance(x, Scratch):
            size = next(remaining) if x.size is None else x.size
            yield np.zeros(max(1, size), x.kind), False
            if x.size is None:
                yield np.array(size, np.int32), False
        elif isinstance(x, np.ndarray):
            yield x, True
        else:
            number = (
                x if isinstance(x, np.generic) else np.int32(0 if isinstance(x, str) else x or 0)
            )
            scalar = x.encode() if isinstance(x, str) else number.tobytes()
            yield np.frombuffer(scalar.ljust(16, b"\0"), np.uint8), False


@once
def _sizes(name: str, arguments: tuple[Scratch | str | int | None, ...]) -> list[int]:
    """The best size of each workspace in elements, which a routine returns for sizes of -1."""
    queried = [x for x in arguments if isinstance(x, Scratch) and x.size is None]
    if not queried:
        return []
    memory = list(
        _filled([np.zeros(8, np.int32) if x is None else x for x in arguments], [-1] * len(queried))
    )
    Calls(lapack(name), 1, [(x.ctypes.data, 0) for x, _ in memory])()
    lengths = [i for i, (x, _) in enumerate(memory) if x.dtype == np.int32 and x.shape == ()]
    return [max(1, int(memory[i - 1][0][0].real)) for i in lengths]


def _line(x: Data) -> int:
    """The leading dimension: the distance of two columns in elements."""
    width: int = x.shape[-1]
    return max(1, width)


def _part(x: Data) -> str:
    return str(x.dtype.char).lower()


def _getrf(flags: str, results: Sequence[Data], operands: Sequence[Data]) -> Call:
    packed, pivots, info = results
    columns, rows = packed.shape[-2:]
    return "getrf", packed, [rows, columns, packed, _line(packed), pivots, info]


def _getrs(flags: str, results: Sequence[Data], operands: Sequence[Data]) -> Call:
    (x, info), (packed, pivots, _) = results, operands
    count, size = x.shape[-2:]
    return "getrs", x, [flags, size, count, packed, _line(packed), pivots, x, _line(x), info]


def _trsm(flags: str, results: Sequence[Data], operands: Sequence[Data]) -> Call:
    # LAPACK's trtrs does the same, and says whether it could; OpenBLAS gives each of its systems,
    # of two rows too, to all threads, which wait for each other.
    (x,), (a, _) = results, operands
    count, size = x.shape[-2:]
    one = x.dtype.type(1)
    return "trsm", x, ["L", *flags, size, count, one, a, _line(a), x, _line(x)]


def _potrf(flags: str, results: Sequence[Data], operands: Sequence[Data]) -> Call:
    factor, info = results
    return "potrf", factor, ["L", factor.shape[-1], factor, _line(factor), info]


def _geqrf(flags: str, results: Sequence[Data], operands: Sequence[Data]) -> Call:
    packed, scales, info = results
    columns, rows = packed.shape[-2:]
    work = Scratch(packed.dtype.char)
    return "geqrf", packed, [rows, columns, packed, _line(packed), scales, work, info]


def _orgqr(flags: str, results: Sequence[Data], operands: Sequence[Data]) -> Call:
    (q, info), (scales, _) = results, operands
    columns, rows = q.shape[-2:]
    name = "ungqr" if q.dtype.kind == "c" else "orgqr"
    work = Scratch(q.dtype.char)
    return name, q, [rows, columns, scales.shape[-1], q, _line(q), scales, work, info]


def _gees(flags: str, results: Sequence[Data], operands: Sequence[Data]) -> Call:
    t, z, *values, info = results
    n, kind = t.shape[-1], t.dtype.char
    work = [Scratch(kind), *([Scratch(_part(t), n)] if t.dtype.kind == "c" else [])]
    no_choice, count, order = Scratch("l", 1), Scratch("i", 1), Scratch("i", max(1, n))
    lines: list[Argument] = ["V", "N", no_choice, n, t, _line(t), count, *values, z, _line(z)]
    return "gees", t, [*lines, *work, order, info]


def _gehrd(flags: str, results: Sequence[Data], operands: Sequence[Data]) -> Call:
    packed, scales, info = results
    n = packed.shape[-1]
    work = Scratch(packed.dtype.char)
    return "gehrd", packed, [n, 1, n, packed, _line(packed), scales, work, info]


def _sytrd(flags: str, results: Sequence[Data], operands: Sequence[Data]) -> Call:
    packed, diagonal, neighbours, scales, info = results
    name = "hetrd" if packed.dtype.kind == "c" else "sytrd"
    work = Scratch(packed.dtype.char)
    lines: list[Argument] = [flags, packed.shape[-1], packed, _line(packed), diagonal, neighbours]
    return name, packed, [*lines, scales, work, info]


def _syevd(flags: str, results: Sequence[Data], operands: Sequence[Data]) -> Call:
    (a,), (*vectors, values, info) = operands, results
    target = vectors[0] if vectors else np.empty_like(a)
    work = [Scratch(kind) for kind in dict.fromkeys((a.dtype.char, _part(a), "i"))]
    name = "heevd" if a.dtype.kind == "c" else "syevd"
    arguments = ["NV"[len(vectors)], "L", a.shape[-1], target, _line(a), values, *work, info]
    return name, target, arguments


def _gesdd(flags: str, results: Sequence[Data], operands: Sequence[Data]) -> Call:
    (a,), (*vectors, info) = operands, results
    columns, rows = a.shape[-2:]
    small, large = sorted((rows, columns))
    kind, target, none = a.dtype.char, np.empty_like(a), Scratch(a.dtype.char, 1)
    u, s, v = vectors if len(vectors) > 1 else (none, *vectors, none)
    lines = [_line(x) if isinstance(x, np.ndarray) else 1 for x in (u, v)]
    real_work_size = small * max(5 * small + 7, 2 * large + 2 * small + 1)
    work = [Scratch(kind), *([Scratch(_part(a), real_work_size)] if a.dtype.kind == "c" else [])]
    return (
        "gesdd",
        target,
        [
            flags,
            rows,
            columns,
            target,
            _line(a),
            s,
            u,
            lines[0],
            v,
            lines[1],
            *work,
            Scratch("i", 8 * small),
            info,
        ],
    )


def _laswp(flags: str, results: Sequence[Data], operands: Sequence[Data]) -> Call:
    (order,), (pivots, _) = results, operands
    return "laswp", order, [1, order, _line(order), 1, pivots.shape[-1], pivots, 1]


CALLS: Mapping[str, Callable[[str, Sequence[Data], Sequence[Data]], Call]] = {
    "getrf": _getrf,  # a -> packed, pivots, info: L and U by partial pivoting, pivots from 1
    "getrs": _getrs,  # packed, pivots, b -> x, info; flags N, or T for the transpose
    "trsm": _trsm,  # a, b -> x; flags U or L, N or T, U for a diagonal of 1 or N
    "potrf": _potrf,  # a -> factor, info: in the lower triangle
    "geqrf": _geqrf,  # a -> packed, scales, info: R, and the reflections of Q
    "orgqr": _orgqr,  # scales, packed -> q, info
    "syevd": _syevd,  # a -> (vectors,) values, info: of the lower triangle
    "gesdd": _gesdd,  # a -> (u,) s, (v^H,) info; flags N for s alone, S, or A for all of u and v
    "gees": _gees,  # a -> T, Z, values (real and imaginary parts), info: Schur's form
    "gehrd": _gehrd,  # a -> packed, scales, info: Hessenberg's form
    "sytrd": _sytrd,  # a -> packed, diagonal, neighbours, scales, info; flags L or U
    "laswp": _laswp,  # pivots from 1, lines -> lines, in the order after all swaps
}

GRID_PROGRAMS: Mapping[str, Callable[[str, tuple[tuple[Shape, DType], ...]], Jaxpr]] = {
    "trsm": block_triangular.program,
}
"""Routines that a grid runs itself: products of matrices, of a few steps."""
