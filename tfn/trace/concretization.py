"""What to say when a value is not there, or cannot be changed, and how the user can mend it."""

from __future__ import annotations

from typing import Any

from tfn.dtypes import SHORT
from tfn.errors import ConcretizationTypeError, DeletedArrayError, ImmutableError
from tfn.trace.op import Op
from tfn.trace.uop import walk

STATIC = "compute with tfn.numpy inside the function, or mark the argument static_argnums in jit"
NUMPY = "use the function of tfn.numpy instead of that of numpy"
BRANCH = "use tfn.numpy.where or tfn.lax.cond, or mark the argument static_argnums in jit"
CAST = "use .astype to change the dtype, or do this outside of the traced function"
INTEGER = "use tfn.lax.fori_loop or an array index, or mark the argument static_argnums in jit"
PRINT = "return it from the traced function, and print what comes back"


def show(value: Any) -> str:
    """A value as messages name it: ``f32[64,128]``."""
    return f"{SHORT[value.dtype]}[{','.join(map(str, value.shape))}]"


def deleted(value: Any) -> DeletedArrayError:
    """The error that a use of a deleted array deserves."""
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
}


def immutable(value: Any, why: str, name: str = "") -> ImmutableError:
    """The error that a change of an array deserves, of its attribute `name` or of its elements."""
    return ImmutableError(
        f"an array cannot be changed in place: {why}",
        got=show(value),
        hint=f"{_INSTEAD.get(name, 'x = x.at[index].set(value)')} gives a new array",
    )


def error(
    value: Any, kind: type[ConcretizationTypeError], need: str, hint: str
) -> ConcretizationTypeError:
    """The error that a use of a traced value deserves: which function, which arguments, what cure.

    `need` says what was asked for, as in "its truth".
    """
    names = dict.fromkeys(
        node.arg.name for node in walk([value.uop]) if node.op is Op.LEAF and node.arg.is_input
    )
    depends = f", which depends on {', '.join(names)}" if names else ""
    return kind(
        f"{need} is needed, but while {value.trace.name} is being traced only the shape and dtype "
        "of this value are known",
        got=f"{value!r}{depends}",
        hint=hint,
    )
