"""Custom kernels: loops over scalars, or LLVM IR, written by hand, as functions of arrays.

    @tfn.kernel(takes=(scalar, vector, vector), gives=vector)      for i in 1000:
    def saxpy(loop, a, x, y, out):                                   out[i] = a * x[i] + y[i]
        i = loop(1000)
        out[i] = a[()] * x[i] + y[i]

A body computes with the public functions of tfn, on scalars.  Loops have no order: the compiler
splits, vectorises and parallelises them as it does with its own.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tfn._support.frozen import frozen
from tfn._support.validate import a_function, integer, several, shown
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, COMPLEXES, INT64, INTEGERS, NARROW, DType
from tfn.errors import ArgumentError, DeviceError, DTypeError, OutOfBoundsError, ShapeError
from tfn.hw.compile.child import ChildCompiler
from tfn.hw.compile.llvm import signature
from tfn.hw.cpu.target import host
from tfn.lower.fuse.indexing import flat
from tfn.lower.index.dependence import dependences
from tfn.lower.report.verify import kernels
from tfn.trace import bind, build, runtime, spec, traces
from tfn.trace.argument import CustomKernel, Fold, Param, Range
from tfn.trace.interpreter import Nest
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const, walk
from tfn.transforms.arguments import as_value, show
from tfn.transforms.custom_jvp import custom_jvp
from tfn.transforms.custom_vjp import custom_vjp
from tfn.transforms.shapes import ShapeDtypeStruct

Function = Callable[..., Any]
Types = ShapeDtypeStruct | Sequence[ShapeDtypeStruct]
SIGNATURE = "void (i64, i64, ptr)"


def kernel(
    body: Function | str | None = None,
    *,
    takes: Types,
    gives: Types,
    name: str | None = None,
    tiles: int = 1,
    jvp: Function | None = None,
    vjp: tuple[Function, Function] | None = None,
    batch: Function | None = None,
) -> Function:
    """Returns a function of arrays that is one kernel, written by hand.

    A body is called once, as ``body(loop, *operands, *results)``.  ``i, j = loop(4, 5)`` opens
    loops; ``x[i, j]`` reads a scalar, ``x.get(i, j, where=c)`` reads zero where the condition does
    not hold; ``out[i, j] = value`` writes, each element of a result exactly once;
    ``loop.sum(value, over=j)`` reduces, and so do max, min and prod.

    LLVM IR defines ``void @name(i64 begin, i64 end, ptr operands)``, which works off `tiles` begin
    to end - 1, on the pointers of the results, then of the operands.  It runs on this machine only,
    and what it reads and writes is not checked.

    Args:
        body: a Python function over loops, or LLVM IR as text; a decorator is returned if None.
        takes, gives: types of the operands and of the results, a `ShapeDtypeStruct` or several.
        name: name of the kernel; that of the body if None.
        tiles: number of parts of a text that can be run apart, on several threads; at least 1.
        jvp: a rule as `custom_jvp` takes it; none if None, and so no forward mode.
        vjp: a pair of rules as `custom_vjp` takes it; none if None.
        batch: ``(size, mapped, *operands) -> (results, mapped)``; without it, a body gets one more
            loop under `vmap`, and a text is run once for each lane.

    Raises:
        OutOfBoundsError: for an access that may leave its array, with an example.
        ShapeError: if an element of a result is not written once.
        ArgumentError, DTypeError: for what a kernel cannot be.
        CompileError: for a text that LLVM does not accept.

    Example:
        >>> import tfn
        >>> number, line = (tfn.ShapeDtypeStruct(s, "float32") for s in ((), (1000,)))
        >>> @tfn.kernel(takes=(number, line, line), gives=line)
        ... def saxpy(loop, a, x, y, out):
        ...     i = loop(1000)
        ...     out[i] = a[()] * x[i] + y[i]
        >>> x = tfn.numpy.arange(1000, dtype="float32")
        >>> saxpy(2.0, x, x)[:3].tolist()
        [0.0, 3.0, 6.0]

        Tiles of 8 by 8, so that lines of the cache are read and written whole:

        >>> matrix = tfn.ShapeDtypeStruct((64, 32), "float32")
        >>> @tfn.kernel(takes=matrix, gives=tfn.ShapeDtypeStruct((32, 64), "float32"))
        ... def transpose(loop, x, out):
        ...     rows, columns, i, j = loop(8, 4, 8, 8)
        ...     out[columns * 8 + j, rows * 8 + i] = x[rows * 8 + i, columns * 8 + j]
        >>> x = tfn.numpy.arange(64.0 * 32).reshape(64, 32)
        >>> bool((transpose(x) == x.T).all())
        True
    """
    options = {
        "takes": takes,
        "gives": gives,
        "name": name,
        "tiles": tiles,
        "jvp": jvp,
        "vjp": vjp,
        "batch": batch,
    }
    if body is None:
        return lambda f: kernel(f, **options)  # type: ignore[arg-type]
    integer("kernel", "tiles", tiles, 1)
    operands, results = _types("takes", takes), _types("gives", gives)
    if isinstance(body, str):
        arg = _from_text(body, name, operands, results, tiles)
        names = [f"operand_{i}" for i in range(len(operands))]
    elif callable(body):
        called = name or str(getattr(body, "__name__", "kernel"))
        arg, names = _from_body(body, called, operands, results)
    else:
        raise ArgumentError(
            "a kernel is a function over loops, or LLVM IR",
            got=f"body={shown(body)}",
            hint="write @tfn.kernel above a def",
        )
    arg = replace(arg, batch=batch)

    def run(*args: Any) -> Any:
        outputs = _bound(arg, _checked(arg, names, args))
        return tuple(outputs) if len(results) > 1 else outputs[0]

    run.__name__ = run.__qualname__ = arg.name
    run.__doc__, run.__module__ = inspect.getdoc(body), getattr(body, "__module__", __name__)
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]
    )
    return _with_rules(run, jvp, vjp, batch)


def _types(what: str, types: Types) -> list[ShapeDtypeStruct]:
    single = hasattr(types, "shape") or isinstance(types, str)
    listed: list[Any] = [types] if single else list(several("kernel", what, types, "types"))
    for t in listed:
        if not isinstance(t, ShapeDtypeStruct):
            raise ArgumentError(
                f"{what} of a kernel holds types of arrays",
                got=shown(t),
                hint="tfn.ShapeDtypeStruct(shape, dtype)",
            )
        if t.dtype in COMPLEXES:
            raise DTypeError(
                "kernels have no complex numbers",
                got=show(t),
                hint="pass the real and the imaginary part",
            )
        if t.dtype in NARROW:
            raise DTypeError(
                "kernels have no numbers of 8 bits or less but bytes",
                got=show(t),
                hint='pass the bits, lax.bitcast_convert_type(x, "uint8")',
            )
    if what == "gives" and (not listed or any(t.size == 0 for t in listed)):
        raise ShapeError(
            "a kernel gives at least one array, and none without elements",
            got=", ".join(map(show, listed)) or "nothing",
            hint="name the arrays that it writes in gives=",
        )
    return listed


def _with_rules(
    run: Function,
    jvp: Function | None,
    vjp: tuple[Function, Function] | None,
    batch: Function | None,
) -> Function:
    if jvp is not None and vjp is not None:
        raise ArgumentError(
            "a kernel has one derivative",
            got="jvp= and vjp=",
            hint="reverse mode follows from jvp=",
        )
    if batch is not None:
        a_function("kernel", "batch", batch)
    if jvp is not None:
        forward = custom_jvp(run)
        forward.defjvp(jvp)
        return forward
    if vjp is not None:
        reverse = custom_vjp(run)
        if not isinstance(vjp, tuple) or len(vjp) != 2:
            raise ArgumentError(
                "the vjp of a kernel is a pair of functions",
                got=f"vjp={shown(vjp)}",
                hint="write vjp=(fwd, bwd), as custom_vjp has them",
            )
        reverse.defvjp(*vjp)
        return reverse
    return run


def _checked(
    arg: CustomKernel, names: Sequence[str], args: Sequence[object]
) -> list[runtime.Value]:
    """The operands as Values of the types that the kernel takes."""
    if len(args) != len(arg.takes):
        raise ArgumentError(
            f"the kernel {arg.name} takes {len(arg.takes)} operand(s)",
            got=f"{len(args)} of them",
            hint=f"pass {', '.join(names) or 'nothing'}",
        )
    values = []
    for operand, name, (shape, dtype) in zip(args, names, arg.takes, strict=True):
        value = as_value(operand, name)
        if value.dtype != dtype and value.weak_type:
            value = bind.bind(Op.CAST, value, arg=dtype)
        if (value.shape, value.dtype) != (shape, dtype):
            expected = show(ShapeDtypeStruct(shape, dtype))
            error = ShapeError if value.shape != shape else DTypeError
            raise error(
                f"the kernel {arg.name} was written for another {name}",
                got=f"{show(value)} instead of {expected}",
            )
        values.append(value)
    return values


def _bound(arg: CustomKernel, operands: Sequence[object]) -> list[Any]:
    """Returns the results: recorded in a trace, or computed now."""
    out: Any = bind.bind(Op.KERNEL, *operands, arg=arg)
    if isinstance(out, list):
        return out
    return [bind.bind(Op.GET, out, arg=i) for i in range(len(arg.results))]


# Bodies.


@dataclass(eq=False)
class Writing:
    """The state of a kernel while its body runs."""

    name: str
    trace: traces.Trace
    ranges: int = 0
    stores: list[tuple[int, UOp]] = field(default_factory=list)  # of which result

    def node(self, scalar: ArrayLike) -> UOp:
        """Returns the node of a scalar of the body."""
        value: Any = scalar
        if isinstance(value, (bool, int, float)):
            value = runtime.installed().asarray(value)
        if getattr(value, "shape", None) != ():
            raise ShapeError(
                f"the kernel {self.name} computes with scalars",
                got=repr(value)[:80],
                hint="read one element, as x[i]",
            )
        if value.owner is None:
            if not value.weak_type:
                raise ArgumentError(
                    f"the kernel {self.name} closes over an array",
                    got=show(value),
                    hint="pass it as an operand, or use a Python number",
                )
            return const(value.item(), value.dtype)
        if value.owner is not self.trace:
            raise ArgumentError(
                f"the kernel {self.name} closes over a traced value",
                got=show(value),
                hint="pass it as an operand",
            )
        uop: UOp = value.uop
        return uop

    def value(self, uop: UOp, weak: bool = False) -> Array:
        """Wraps a node as a scalar of the body."""
        scalar: Array = runtime.installed().wrap(uop, self.trace, False, weak)
        return scalar


class Loops:
    """The first argument of a body: opens loops, and reduces over them."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def __call__(self, *sizes: int) -> Any:
        """Opens loops, and returns the index of one, or a tuple of several."""
        counters = []
        for size in sizes:
            if not isinstance(size, int) or size < 1:
                raise ArgumentError(
                    "a loop has a size, at least 1",
                    got=f"size {size!r}",
                    hint="sizes are ints that are known, such as x.shape[0]",
                )
            count = self._writing.ranges
            self._writing.ranges += 1
            r = UOp(Op.RANGE, (), Range(count, size)) if size > 1 else const(0, INT64)
            counters.append(self._writing.value(r))
        return counters[0] if len(counters) == 1 else tuple(counters)

    def sum(self, value: ArrayLike, over: Array | tuple[Array, ...]) -> Array:
        """Returns the sum over one loop, or a tuple of loops."""
        return self._fold(Op.ADD, value, over)

    def prod(self, value: ArrayLike, over: Array | tuple[Array, ...]) -> Array:
        """Returns the product over one loop, or a tuple of loops."""
        return self._fold(Op.MUL, value, over)

    def max(self, value: ArrayLike, over: Array | tuple[Array, ...]) -> Array:
        """Returns the largest over one loop, or a tuple of loops."""
        return self._fold(Op.MAX, value, over)

    def min(self, value: ArrayLike, over: Array | tuple[Array, ...]) -> Array:
        """Returns the smallest over one loop, or a tuple of loops."""
        return self._fold(Op.MIN, value, over)

    def _fold(self, op: Op, value: ArrayLike, over: Array | tuple[Array, ...]) -> Array:
        writing = self._writing
        node = writing.node(value)
        ranges = [writing.node(r) for r in (over if isinstance(over, tuple) else (over,))]
        wrong = [r for r in ranges if r.op is not Op.RANGE and r is not const(0, INT64)]
        if wrong:
            raise ArgumentError(
                "a reduction goes over loops",
                got=kernels.show(wrong[0]),
                hint="over= takes what loop() has returned",
            )
        loops = [r for r in ranges if r.op is Op.RANGE]
        if not loops:
            return writing.value(node)
        wide = build.cast(node, build.accumulator(node.dtype))
        return writing.value(build.cast(UOp(Op.FOLD, (wide, *loops), Fold(op)), node.dtype))


class Block:
    """An array in a kernel: an operand, which is read, or a result, which is written.

    Attributes:
        name: the name of the parameter of the body.
        shape, dtype: as declared.
    """

    __iter__ = None  # with `__getitem__` alone iteration would never end

    def __init__(
        self, writing: Writing, name: str, number: int, like: ShapeDtypeStruct, result: bool
    ) -> None:
        self.name, self.shape, self.dtype = name, like.shape, like.dtype
        self._writing, self._number, self._result = writing, number, result
        self._param = UOp(Op.PARAM, (), Param(number, (like.size,), like.dtype))

    def __getitem__(self, index: ArrayLike | tuple[ArrayLike, ...]) -> Array:
        return self.get(*(index if isinstance(index, tuple) else (index,)))

    def __setitem__(self, index: ArrayLike | tuple[ArrayLike, ...], value: ArrayLike) -> None:
        self.set(*(index if isinstance(index, tuple) else (index,)), value=value)

    def get(self, *index: ArrayLike, where: ArrayLike | None = None) -> Array:
        """Returns the element at an index; zero where the condition does not hold.

        Args:
            index: an integer or an index of a loop for each axis.
            where: a boolean scalar; True if None.

        Raises:
            ArgumentError: if the array is a result.
            OutOfBoundsError: if the index may leave the array.
        """
        if self._result:
            raise ArgumentError(
                f"{self.name} is a result, which a kernel only writes",
                got=f"a read of {self.name}",
                hint="keep what is needed again in a variable",
            )
        predicate = self._predicate(where)
        at = self._at(index, predicate)
        src = (self._param, at) if predicate is None else (self._param, at, predicate)
        return self._writing.value(UOp(Op.LOAD, src))

    def set(self, *index: ArrayLike, value: ArrayLike, where: ArrayLike | None = None) -> None:
        """Writes an element, if the condition holds.

        Args:
            index: an integer or an index of a loop for each axis.
            value: a scalar of the dtype of the array.
            where: a boolean scalar; True if None.

        Raises:
            ArgumentError: if the array is an operand.
            DTypeError: for a value of another dtype.
            OutOfBoundsError: if the index may leave the array.
        """
        if not self._result:
            raise ArgumentError(
                f"{self.name} is an operand, which a kernel only reads",
                got=f"a store to {self.name}",
                hint="name another result in gives=",
            )
        node, predicate = self._writing.node(value), self._predicate(where)
        if node.dtype != self.dtype:
            weak = isinstance(value, (bool, int, float)) or getattr(value, "weak_type", False)
            if not weak:
                raise DTypeError(
                    f"{self.name} holds {self.dtype.name}", got=node.dtype.name, hint="use .astype"
                )
            node = build.cast(node, self.dtype)
        src = (self._param, self._at(index, predicate), node)
        self._writing.stores.append(
            (self._number, UOp(Op.STORE, src if predicate is None else (*src, predicate)))
        )

    def _predicate(self, where: ArrayLike | None) -> UOp | None:
        if where is None:
            return None
        predicate = self._writing.node(where)
        if predicate.dtype != BOOL:
            raise DTypeError("where= is a condition", got=predicate.dtype.name, hint="compare")
        return predicate

    def _at(self, index: Sequence[ArrayLike], predicate: UOp | None) -> UOp:
        """The flat position of an index that is proved to be there."""
        if len(index) != len(self.shape):
            raise ShapeError(
                f"{self.name} has {len(self.shape)} axes",
                got=f"{len(index)} indices",
                hint="write an index for each axis",
            )
        nodes = []
        for axis, (i, size) in enumerate(zip(index, self.shape, strict=True)):
            node = self._writing.node(i)
            if node.dtype not in INTEGERS:
                raise DTypeError(
                    f"axis {axis} of {self.name} needs an integer",
                    got=node.dtype.name,
                    hint="use .astype('int64')",
                )
            node = build.cast(node, INT64)
            wrong = kernels.check_bounds(node, size, predicate)
            if wrong is not None:
                raise OutOfBoundsError(
                    f"the kernel {self._writing.name} may leave axis {axis} of {self.name}, "
                    f"of size {size}",
                    got=f"index {kernels.show(node)}: {wrong}",
                    hint="loop over what is there, clamp the index, or say where= it is needed",
                )
            nodes.append(node)
        return flat(self.shape, tuple(nodes))


def _from_body(
    body: Function, name: str, takes: Sequence[ShapeDtypeStruct], gives: Sequence[ShapeDtypeStruct]
) -> tuple[CustomKernel, list[str]]:
    """Traces a body: returns the kernel, and the names of its operands."""
    names = list(inspect.signature(body).parameters)[1:]
    if len(names) != len(takes) + len(gives):
        raise ArgumentError(
            f"the body of {name} takes loop, {len(takes)} operand(s) and {len(gives)} result(s)",
            got=", ".join(inspect.signature(body).parameters),
            hint=f"write def {name}(loop, operands, ..., results, ...)",
        )
    with traces.tracing(name) as trace:
        writing = Writing(name, trace)
        results = [
            Block(writing, n, i, t, True)
            for i, (n, t) in enumerate(zip(names[len(takes) :], gives, strict=True))
        ]
        operands = [
            Block(writing, n, len(gives) + i, t, False)
            for i, (n, t) in enumerate(zip(names, takes))
        ]
        body(Loops(writing), *operands, *results)
    for i, (result, like) in enumerate(zip(results, gives, strict=True)):
        stores = [store for number, store in writing.stores if number == i]
        wrong = kernels.check_coverage(stores, like.size)
        if wrong is not None:
            raise ShapeError(
                f"the kernel {name} writes {result.name} in part, or twice",
                got=wrong,
                hint="write each element once, in loops over its shape",
            )
    sink = UOp(Op.SINK, tuple(store for _, store in writing.stores))
    _check(name, sink)
    return CustomKernel(name, _kinds(takes), _kinds(gives), Nest(sink), sink), names[: len(takes)]


def _kinds(types: Sequence[ShapeDtypeStruct]) -> tuple[tuple[Shape, DType], ...]:
    return tuple((t.shape, t.dtype) for t in types)


def _check(name: str, sink: UOp) -> None:
    """Refuses operations that have no meaning inside of loops."""
    for node in walk([sink]):
        if node.op is Op.LEAF:
            raise ArgumentError(
                f"the kernel {name} closes over an array",
                got=repr(node),
                hint="pass it as an operand",
            )
        if node.op not in spec.RANGES_OPS or (node.shape and node.op is not Op.PARAM):
            raise ArgumentError(
                f"the kernel {name} computes with scalars",
                got=node.op.value,
                hint="reduce with loop.sum, and index with loops",
            )
    folded = {r for u in walk([sink]) if u.op is Op.FOLD for r in u.src[1:]}
    free = dependences(sink)
    for store in sink.src:
        both = [r for r in free[store] if r in folded]
        if both:
            raise ArgumentError(
                f"the kernel {name} reduces over a loop in which it writes",
                got=kernels.show(both[0]),
                hint="open another loop for the reduction",
            )
    spec.check([sink], spec.Stage.RANGES)


# Texts.


def _from_text(
    text: str,
    name: str | None,
    takes: Sequence[ShapeDtypeStruct],
    gives: Sequence[ShapeDtypeStruct],
    tiles: int,
) -> CustomKernel:
    """Returns the kernel of LLVM IR, which LLVM has accepted in a process of its own."""
    defined = re.findall(r"^define [^@\n]*@([-\w.$]+)", text, re.MULTILINE)
    if name is None:
        name = defined[0] if len(defined) == 1 else "kernel"
    if name not in defined:
        raise ArgumentError(
            "a text defines the function that it is called by",
            got=", ".join(defined) or "no definition",
            hint=f"define void @{name}(i64 %begin, i64 %end, ptr %operands), and give its name",
        )
    actual = signature(text, name)
    if actual != SIGNATURE:
        raise ArgumentError(
            f"the function {name} must be {SIGNATURE}",
            got=actual,
            hint="operands are results, then what it takes",
        )
    ChildCompiler().compile(text, host())
    text = re.sub(rf"@{re.escape(name)}(?![-\w.$])", "@@", text)
    return CustomKernel(name, _kinds(takes), _kinds(gives), Text(name), None, text + "\n", tiles)


@frozen
class Text:
    """A kernel of LLVM IR on a device that does not run it: an error."""

    name: str

    def __call__(self, results: Sequence[object], operands: Sequence[object]) -> None:
        """Raises DeviceError.

        Raises:
            DeviceError: always.
        """
        raise DeviceError(
            f"the kernel {self.name} is LLVM IR, which this device does not run",
            hint="write it over loops, or use the device 'cpu'",
        )
