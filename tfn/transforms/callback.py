"""Python functions called from within programs: `pure_callback`, `io_callback`.

A pure function is a value like any other.  One that does something beside is threaded on a token:
see `trace.effects`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfn import tree
from tfn._support.frozen import frozen
from tfn._support.validate import a_function
from tfn._support.validate import shown as shown_value
from tfn.dtypes import BOOL, FLOATS, DType
from tfn.errors import ArgumentError, DTypeError, ShapeError, TfnError, TreeError
from tfn.trace import bind, effects, runtime, traces
from tfn.trace.argument import Host, VmapMethod
from tfn.trace.build import several
from tfn.trace.inline import unfold
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp
from tfn.transforms.arguments import Function, argument_names, as_value, name_of
from tfn.transforms.shapes import ShapeDtypeStruct

Arrays = Sequence[np.ndarray]


@frozen
class Returning:
    """A function that returns its results, as one that writes them.

    It gets copies of the operands, and its results are copied: `operands` and `results` are memory
    of the program, which is used again after the call, and user code may keep what it is given.

    Attributes:
        function: takes and returns trees of arrays.
        takes: the structure of its arguments, as (args, kwargs).
        gives: the structure of its result.
    """

    function: Function
    takes: tree.Structure
    gives: tree.Structure

    def __call__(self, results: Arrays, operands: Arrays) -> None:
        """Call the function and copy what it returns.

        Raises:
            TreeError, ShapeError, DTypeError: for results that were not declared.
        """
        args, kwargs = tree.unflatten(self.takes, [_own(x) for x in operands])
        returned = self.function(*args, **kwargs)
        leaves, structure = tree.flatten(returned)
        if structure != self.gives:
            raise self._wrong(TreeError, "structure", tree.show(structure), tree.show(self.gives))
        for i, (place, leaf) in enumerate(zip(results, leaves, strict=True)):
            value = np.asarray(leaf)
            if value.shape != place.shape:
                raise self._wrong(ShapeError, "shape", value.shape, place.shape, i)
            if not np.can_cast(value.dtype, place.dtype, "same_kind"):
                raise self._wrong(DTypeError, "dtype", value.dtype, place.dtype, i)
            place[...] = value

    def _wrong(
        self, error: type[TfnError], what: str, got: object, declared: object, i: int = 0
    ) -> TfnError:
        path = tree.places(self.gives)[i][1] if self.gives.num_leaves > 1 else ""
        words = f"{got} instead of {declared}" + (f" at {path}" if path else "")
        return error(
            f"{self} did not return the {what} that was declared for it",
            got=words,
            hint=f"return {declared}, or declare {got}",
        )

    def __str__(self) -> str:
        return name_of(self.function)


def _own(x: np.ndarray) -> np.ndarray:
    """A read-only copy."""
    copied = x.copy()
    copied.setflags(write=False)
    return copied


def pure_callback(
    callback: Function,
    result_shape_dtypes: object,
    *args: object,
    sharding: None = None,
    vmap_method: str | None = None,
    **kwargs: object,
) -> Any:
    """Call a Python function from within a program: on NumPy arrays, at run time.

    The function must be pure: it may be called more or less often than the program says.  Its
    arguments are read-only copies, which it may keep.

    Args:
        result_shape_dtypes: a tree of `ShapeDtypeStruct`, or of arrays, like what it returns.
        sharding: accepted as in JAX; there is nothing to say.
        vmap_method: how `vmap` calls it: ``sequential``, once for each lane; ``expand_dims`` or
            ``broadcast_all``, once on arrays with one more axis in front, which has size 1, or
            the size of the others, where a value is the same in all lanes; None, not at all.

    Raises:
        TreeError, ShapeError, DTypeError: when it runs, for results that were not declared.

    Example:
        >>> import numpy as np
        >>> import tfn
        >>> shape = tfn.ShapeDtypeStruct((3,), "float32")
        >>> tfn.jit(lambda x: tfn.pure_callback(np.sort, shape, x))(np.float32([2, 3, 1])).tolist()
        [1.0, 2.0, 3.0]
    """
    run, kinds, operands = _declared(callback, result_shape_dtypes, args, kwargs)
    results = of_host(Host(run, kinds, _method(vmap_method)), operands)
    return tree.unflatten(run.gives, results)


def io_callback(
    callback: Function,
    result_shape_dtypes: object,
    *args: object,
    sharding: None = None,
    ordered: bool = False,
    **kwargs: object,
) -> Any:
    """Call a Python function that has effects: exactly once each time.

    Its arguments are read-only copies, which it may keep.  All effects of a program happen in the
    order of the Python program, those of the steps of a loop too, whether `ordered` or
    not; under `vmap` once for each lane, in their order.

    Args:
        result_shape_dtypes: as for `pure_callback`; None if it returns nothing.
        sharding, ordered: accepted as in JAX; there is nothing to say.

    Raises:
        TreeError, ShapeError, DTypeError: as for `pure_callback`.

    Example:
        >>> import tfn
        >>> seen = []
        >>> def step(total, x):
        ...     tfn.io_callback(lambda t: seen.append(float(t)), None, total)
        ...     return total + x, None
        >>> last, _ = tfn.jit(lambda xs: tfn.lax.scan(step, 0.0, xs))(tfn.numpy.arange(3.0))
        >>> seen
        [0.0, 0.0, 1.0]
    """
    run, kinds, operands = _declared(callback, result_shape_dtypes, args, kwargs)
    results = effects.act(acting(run, kinds), operands)
    return tree.unflatten(run.gives, results)


def acting(run: Returning, kinds: Sequence[tuple[Shape, DType]] = ()) -> Host:
    """A function of the host that takes a token, and returns it after the call."""
    return Host(Acting(run), (((), BOOL), *kinds), VmapMethod.SEQUENTIAL, has_effects=True)


@frozen
class Acting:
    """A function with an effect, called if its token is true."""

    run: Returning

    def __call__(self, results: Arrays, operands: Arrays) -> None:
        """Call it, or write zeros, which are not used."""
        (token, *arguments), (after, *places) = operands, results
        if token[()]:
            self.run(places, arguments)
        else:
            for place in places:
                place.fill(0)
        after[...] = token

    def __str__(self) -> str:
        return str(self.run)


def shown(x: np.ndarray) -> float | np.ndarray:
    """An array as people read it: a number of fewer than 64 bits with the digits that it has."""
    if x.ndim or x.dtype not in FLOATS or x.dtype.itemsize == 8:
        return x
    return float(str(x[()]))


def _declared(
    callback: Function, declared: object, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[Returning, tuple[tuple[Shape, DType], ...], list[runtime.Value]]:
    """A callback as a function of the host, the types of its results, and its operands."""
    a_function("a callback", "callback", callback)
    leaves, takes = tree.flatten((args, kwargs))
    names = argument_names(callback, takes) if leaves else []
    operands = [as_value(x, name) for x, name in zip(leaves, names, strict=True)]
    declared_types, gives = tree.flatten(declared)
    for t in declared_types:
        if not (hasattr(t, "shape") and hasattr(t, "dtype")):
            raise ArgumentError(
                "a callback needs the types of its results",
                got=f"result_shape_dtypes={shown_value(declared)}",
                hint="pass tfn.ShapeDtypeStruct(shape, dtype) for each array",
            )
    types = [ShapeDtypeStruct(t.shape, t.dtype) for t in declared_types]
    return Returning(callback, takes, gives), tuple((t.shape, t.dtype) for t in types), operands


def _method(name: str | None) -> VmapMethod:
    try:
        return VmapMethod.REFUSE if name is None else VmapMethod(name)
    except ValueError:
        raise ArgumentError(
            "there is no such vmap_method",
            got=f"vmap_method={name!r}",
            hint="methods are " + ", ".join(m.value for m in VmapMethod if m.value != "refuse"),
        ) from None


def of_host(host: Host, operands: Sequence[runtime.Value]) -> list[Any]:
    """The results of a function of the host: recorded, or called now.

    In a function that is traced without values it is recorded whatever its operands are: a branch
    that is not taken must not call it.
    """
    trace = bind.innermost(operands)
    running = traces.running()
    if trace is None and running and not running[-1].known:
        trace = running[-1]
    if trace is None:
        return bind.call_host(host, operands)
    node = UOp(Op.HOST, tuple([bind.lift(x, trace) for x in operands]), host)
    known = all(x.owner is None or x.known for x in operands)
    count = len(host.results)
    return [runtime.installed().wrap(UOp(Op.GET, (node,), i), trace, known) for i in range(count)]


def inspect(callback: Function, x: runtime.Value) -> None:
    """Ask for the sharding that a traced value will have, when its program is divided."""
    host = Host(_answered, (((), BOOL),), VmapMethod.SEQUENTIAL, True, callback)
    effects.act(host, [x])


def _answered(results: Arrays, operands: Arrays) -> None:
    """Pass the token on: where a program runs that was not divided, nothing is to be told."""
    results[0][...] = operands[0]


def inspected(outputs: Sequence[UOp], sharding: object) -> list[UOp]:
    """Graphs on one device, of which all requests for shardings have been answered."""

    def answered(u: UOp) -> Sequence[UOp]:
        if u.arg.inspects is None:
            return several(u)
        u.arg.inspects(sharding)
        return [u.src[0]]

    return unfold(outputs, {Op.HOST: answered})
