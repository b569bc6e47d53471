"""cuSOLVER: routines of LAPACK on the GPU, where NVIDIA's library is installed.

    host[getrf] a  ->  cusolverDnSgetrf in the stream of programs, for each matrix of the stack

A routine is a function of the host in a program; with the library its matrices stay on the device,
and nothing waits for them.  Without it, and for what no row of `ROWS` has, they are copied to the
host and back.

Source: cuSOLVER API reference, dense LAPACK functions; arguments of LAPACK as in
`tfn.numpy.linalg.lapack`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

from tfn.dtypes import DType
from tfn.errors import DeviceError
from tfn.extend import Buffer, Shape, frozen
from tfn.hw.cuda.driver import Driver
from tfn.hw.cuda.library import package_library
from tfn.hw.cuda.memory import CudaMemory

NAMES = ("libcusolver.so.12", "libcusolver.so.11")
LOWER = 0  # cublasFillMode_t: CUBLAS_FILL_MODE_LOWER
VECTORS = {False: 0, True: 1}  # cusolverEigMode_t
TRANSPOSES = {"N": 0, "T": 1, "C": 2}  # cublasOperation_t
LETTERS = {"f": "S", "d": "D"}
"""The letter of cuSOLVER's functions for each character of a dtype.  Complex matrices are two real
ones in programs, which a function of the host puts together: they go there."""


@frozen
class Matrix:
    """A stack of matrices, or of what belongs to each, in memory of the device.

    Attributes:
        shape: without the axes of the stack; matrices are stored by columns.
        bytes_each: of one.
    """

    address: int
    shape: Shape
    bytes_each: int

    @property
    def line(self) -> int:
        """The distance of two columns in elements."""
        return max(1, self.shape[-1])


class _Work:
    """The place of the workspace among the arguments, or of its size."""


WORK, SIZE, NOTHING = _Work(), _Work(), None
Argument = Matrix | _Work | int | bytes | None


@frozen
class Step:
    """A function of the library.

    Attributes:
        name: without its prefix and letter.
        target: the matrices that it overwrites; None for memory of its own, of that size.
        query: arguments that ask for the size of the workspace; None without one.
        arguments: for each matrix.
    """

    name: str
    target: Matrix
    query: tuple[Argument, ...] | None
    arguments: tuple[Argument, ...]


Row = Callable[[str, Sequence[Matrix], Sequence[Matrix], Matrix], Step | None]
"""The step of a routine by its flags, results, operands, and memory for what is overwritten."""


def _getrf(flags: str, results: Any, operands: Any, spare: Matrix) -> Step:
    packed, pivots, info = results
    columns, rows = packed.shape
    sizes = (rows, columns, packed, packed.line)
    return Step("getrf", packed, sizes, (*sizes, WORK, pivots, info))


def _getrs(flags: str, results: Any, operands: Any, spare: Matrix) -> Step:
    (x, info), (packed, pivots, _) = results, operands
    count, size = x.shape
    system = (TRANSPOSES[flags], size, count, packed, packed.line, pivots)
    return Step("getrs", x, None, (*system, x, x.line, info))


def _potrf(flags: str, results: Any, operands: Any, spare: Matrix) -> Step:
    factor, info = results
    sizes = (LOWER, factor.shape[-1], factor, factor.line)
    return Step("potrf", factor, sizes, (*sizes, WORK, SIZE, info))


def _geqrf(flags: str, results: Any, operands: Any, spare: Matrix) -> Step:
    packed, scales, info = results
    columns, rows = packed.shape
    sizes = (rows, columns, packed, packed.line)
    return Step("geqrf", packed, sizes, (*sizes, scales, WORK, SIZE, info))


def _orgqr(flags: str, results: Any, operands: Any, spare: Matrix) -> Step:
    (q, info), (scales, _) = results, operands
    columns, rows = q.shape
    sizes = (rows, columns, scales.shape[-1], q, q.line, scales)
    return Step("orgqr", q, sizes, (*sizes, WORK, SIZE, info))


def _syevd(flags: str, results: Any, operands: Any, spare: Matrix) -> Step:
    *vectors, values, info = results
    target = vectors[0] if vectors else spare
    sizes = (VECTORS[bool(vectors)], LOWER, target.shape[-1], target, target.line, values)
    return Step("syevd", target, sizes, (*sizes, WORK, SIZE, info))


def _gesdd(flags: str, results: Any, operands: Any, spare: Matrix) -> Step | None:
    *vectors, info = results
    columns, rows = spare.shape
    if rows < columns:  # the library takes none of these
        return None
    if len(vectors) == 1:
        u, s, v = (NOTHING, 1), vectors[0], (NOTHING, 1)
    else:
        u, s, v = (vectors[0], vectors[0].line), vectors[1], (vectors[2], vectors[2].line)
    letter = flags.encode()
    sizes = (letter, letter, rows, columns, spare, spare.line)
    return Step("gesvd", spare, (rows, columns), (*sizes, s, *u, *v, WORK, SIZE, NOTHING, info))


ROWS: Mapping[str, Row] = {
    "getrf": _getrf,
    "getrs": _getrs,
    "potrf": _potrf,
    "geqrf": _geqrf,
    "orgqr": _orgqr,
    "syevd": _syevd,
    "gesdd": _gesdd,
}
"""The routines that run on the GPU; results and operands are those of `lapack.CALLS`."""


def function_name(step: str, dtype: DType) -> str:
    """The name of a function of the library.

    Example:
        >>> import numpy as np
        >>> function_name("getrf", np.dtype("float64"))
        'cusolverDnDgetrf'
    """
    return f"cusolverDn{LETTERS[dtype.char]}{step}"


@cache
def library() -> Callable[[str], Callable[..., int]] | None:
    """The functions of the library of this machine by name; None where there is none."""
    opened = package_library(NAMES)
    return None if opened is None else lambda function: getattr(opened, function)


class Solver:
    """cuSOLVER on one GPU."""

    def __init__(self, driver: Driver, functions: Callable[[str], Callable[..., int]]) -> None:
        self._driver, self._functions, self._handle = driver, functions, ctypes.c_void_p()
        self._sizes: dict[tuple[Any, ...], int] = {}
        driver.enter()
        self._call("cusolverDnCreate", ctypes.byref(self._handle))
        self._call("cusolverDnSetStream", self._handle, driver.stream)

    def _call(self, name: str, *arguments: Any) -> None:
        code = self._functions(name)(*arguments)
        if code:
            raise DeviceError(
                f"cuSOLVER could not run on {self._driver.name}",
                got=f"status {code} from {name}",
                hint="the library and the driver have to fit: CUDA 12 or later",
            )

    def step(
        self,
        routine: Any,
        pointers: Sequence[int],
        types: Sequence[tuple[Shape, DType]],
        results: int,
    ) -> Step | None:
        """The step of a function of the host; None if the library has none for it.

        Args:
            routine: the function, with a name and flags if it is a routine.
            pointers, types: of the results, then of the operands.
            results: their number.
        """
        row = ROWS.get(getattr(routine, "name", ""))
        stack = types[-1][0][:-2]
        if row is None or not hasattr(routine, "flags") or 0 in types[-1][0]:
            return None
        if types[-1][1].char not in LETTERS:
            return None
        matrices = []
        for pointer, (shape, dtype) in zip(pointers, types, strict=True):
            own = shape[len(stack) :]
            matrices.append(Matrix(pointer, own, prod(own) * dtype.itemsize))
        spare = Matrix(0, matrices[-1].shape, matrices[-1].bytes_each)
        return row(routine.flags, matrices[:results], matrices[results:], spare)

    def run(self, step: Step, memory: CudaMemory, source: int, count: int, dtype: DType) -> None:
        """Enqueue a step for each matrix of a stack.

        Args:
            source: the address of what is overwritten, which is copied first.
            count: of matrices.
        """
        name, size = function_name(step.name, dtype), step.target.bytes_each
        kept: list[Buffer] = []

        def scratch(size_bytes: int) -> int:
            kept.append(memory.allocate(size_bytes))
            return memory.pointer(kept[-1])

        spare = step.target.address or scratch(size * count)
        self._driver.enter()
        self._driver.library(
            "cuMemcpyDtoDAsync",
            *(ctypes.c_uint64(spare), ctypes.c_uint64(source), ctypes.c_size_t(size * count)),
            self._driver.stream,
        )
        length = self._length(name, step)
        work = scratch(max(length, 1) * dtype.itemsize)
        for i in range(count):
            given = [_value(x, i, spare, work, length) for x in step.arguments]
            self._call(name, self._handle, *given)

    def _length(self, name: str, step: Step) -> int:
        """The elements of the workspace of one matrix; asked for once for the same sizes."""
        if step.query is None:
            return 0
        key = (name, *[x for x in step.query if not isinstance(x, Matrix)])
        if key not in self._sizes:
            length = ctypes.c_int()
            # The library reads sizes alone; addresses are any.
            asked = [_value(x, 0, 0, 0, 0) for x in step.query]
            self._call(f"{name}_bufferSize", self._handle, *asked, ctypes.byref(length))
            self._sizes[key] = length.value
        return self._sizes[key]


def _value(x: Argument, i: int, spare: int, work: int, length: int) -> Any:
    """An argument for matrix i as a value of C."""
    if isinstance(x, Matrix):
        return ctypes.c_void_p((x.address or spare) + i * x.bytes_each)
    if isinstance(x, bytes):
        return ctypes.c_char(x)
    if x is WORK:
        return ctypes.c_void_p(work)
    if x is NOTHING:
        return ctypes.c_void_p()
    return ctypes.c_int(length if isinstance(x, _Work) else x)
