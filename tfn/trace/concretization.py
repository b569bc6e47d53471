"""Concretization errors: a value is not known while tracing, or an array cannot be changed."""

from __future__ import annotations

from tfn.dtypes import SHORT
from tfn.errors import ConcretizationTypeError, DeletedArrayError, ImmutableError
from tfn.trace.op import Op
from tfn.trace.runtime import Typed, Value
from tfn.trace.uop import walk

STATIC = "compute with tfn.numpy inside the function, or mark the argument static_argnums in jit"
NUMPY = "use the function of tfn.numpy instead of that of numpy"
BRANCH = "use tfn.numpy.where or tfn.lax.cond, or mark the argument static_argnums in jit"
CAST = "use .astype to change the dtype, or do this outside of the traced function"
INTEGER = "use tfn.lax.fori_loop or an array index, or mark the argument static_argnums in jit"
PRINT = "return it from the traced function, and print what comes back"


def show(value: Typed) -> str:
    """A value as messages name it: ``f32[64,128]``."""
    return f"{SHORT[value.dtype]}[{','.join(map(str, value.shape))}]"


def deleted(value: Typed) -> DeletedArrayError:
    """The error for a use of a deleted array."""
    return DeletedArrayError(
        f"this array has been deleted: {show(value)}",
        got="an array that was donated",
        hint="it was donated to a jitted function; use that function's result, or "
        "leave donate_argnums out",
    )


_INSTEAD = {
    "shape": "x = x.reshape(shape)",
    "dtype": "x = x.astype(dtype)",
    "weak_type": "x = x.astype(x.dtype)",
    "fill": "x = tnp.full_like(x, value)",
    "partition": "x = tnp.partition(x, kth)",
    "resize": "x = tnp.resize(x, shape)",
}


def immutable(value: Typed, why: str, name: str = "") -> ImmutableError:
    """The error for an assignment to an array: to its attribute `name`, or to its elements."""
    return ImmutableError(
        f"an array cannot be changed in place: {why}",
        got=show(value),
        hint=f"{_INSTEAD.get(name, 'x = x.at[index].set(value)')} gives a new array",
    )


def error(
    value: Value, kind: type[ConcretizationTypeError], need: str, hint: str
) -> ConcretizationTypeError:
    """The error for a use of a traced value: names the function and the arguments it depends on.

    `need` is the operation that needs the value, as in "its truth".
    """
    assert value.uop is not None and value.owner is not None
    names = dict.fromkeys(
        node.arg.name for node in walk([value.uop]) if node.op is Op.LEAF and node.arg.is_input
    )
    depends = f", which depends on {', '.join(names)}" if names else ""
    return kind(
        f"{need} is needed, but while {value.owner.name} is being traced only the shape and dtype "
        "of this value are known",
        got=f"{value!r}{depends}",
        hint=hint,
    )
