"""Debugging of running programs: `debug.print`, `debug.callback`, pictures of shardings.

They change nothing: a derivative, a batch, a compiled program computes the same with and without
them.  Under `vmap` they are called once for each lane, in a loop once for each step, and of a
branch only if it is chosen; derivatives call them once, while the function itself is computed.
"""

from __future__ import annotations

import builtins
import string
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from tfn import tree
from tfn._support.frozen import frozen
from tfn._support.validate import a_function
from tfn._support.validate import shown as shown_value
from tfn.errors import ArgumentError, StaticArgumentError
from tfn.inspect.shardings import inspect_array_sharding as inspect_array_sharding
from tfn.inspect.shardings import visualize_array_sharding as visualize_array_sharding
from tfn.inspect.shardings import visualize_sharding as visualize_sharding
from tfn.trace import effects
from tfn.transforms.arguments import as_value
from tfn.transforms.callback import Returning, acting, shown

NOTHING = tree.structure(None)


def breakpoint(*, ordered: bool = False, **values: object) -> None:
    """Stop in Python's debugger when a program comes here, with the values of local variables.

    The debugger, that of ``sys.breakpointhook``, knows the arrays and numbers among the local
    variables of the function that calls this, as NumPy arrays, and `values`; ``p x`` shows one,
    ``c`` goes on.

    Args:
        ordered: accepted as in JAX: calls are always in the order of the Python program.
        values: others that it is to know, by name.

    Example:
        >>> import sys, tfn
        >>> stops = []
        >>> sys.breakpointhook = lambda: stops.append(sys._getframe(1).f_globals["y"])
        >>> def f(x):
        ...     y = x + 1
        ...     breakpoint()
        ...     return y
        >>> float(tfn.jit(f)(2.0)), float(stops[0])
        (3.0, 3.0)
        >>> sys.breakpointhook = sys.__breakpointhook__
    """
    frame = sys._getframe(1)
    known = {
        name: value
        for name, value in (frame.f_locals | values).items()
        if name.isidentifier() and builtins.all(map(_is_value, tree.leaves(value)))
    }
    where = compile("breakpoint()", f"{frame.f_code.co_filename}:{frame.f_lineno}", "exec")
    callback(_Stopping(where), **known)


def _is_value(leaf: object) -> bool:
    return is_array(leaf) or isinstance(leaf, (bool, int, float, complex))


@frozen
class _Stopping:
    """Stops in the debugger; equal ones are one."""

    where: CodeType

    def __call__(self, **values: object) -> None:
        exec(self.where, {"breakpoint": builtins.breakpoint, **values})


def callback(
    callback: Callable[..., Any],
    *args: object,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: object,
) -> None:
    """Calls a Python function on the values of arrays, as NumPy arrays; its result is dropped.

    Args:
        callback: the function.
        args, kwargs: trees of arrays; what is not an array or a number is passed as it is.
        ordered, partitioned: accepted as in JAX: calls are always in the order of the Python
            program, and of whole arrays.

    Example:
        >>> import tfn
        >>> seen = []
        >>> def f(x):
        ...     callback(lambda y: seen.append(float(y)), x * 2)
        ...     return x * x
        >>> float(tfn.jit(tfn.grad(f))(3.0)), seen
        (6.0, [6.0])
    """
    a_function("debug.callback", "callback", callback)
    leaves, structure = tree.flatten((args, kwargs))
    dynamic = [i for i, x in enumerate(leaves) if is_array(x)]
    fixed = tuple((i, x) for i, x in enumerate(leaves) if i not in set(dynamic))
    try:
        hash(fixed)
    except TypeError:
        raise StaticArgumentError(
            "an argument of debug.callback cannot be hashed",
            got=", ".join(repr(x)[:40] for _, x in fixed),
            hint="pass arrays, numbers and strings",
        ) from None
    values = [as_value(leaves[i], f"argument {i}") for i in dynamic]
    run = Returning(_Silent(callback, structure, fixed), tree.structure((values, {})), NOTHING)
    effects.act(acting(run), values)


def is_array(x: object) -> bool:
    """Whether a leaf is an array or a number; all else is passed as it is.

    Example:
        >>> is_array(1.0), is_array("text")
        (True, False)
    """
    return isinstance(x, (bool, int, float, complex)) or hasattr(x, "__array__")


def print(
    fmt: str,
    *args: object,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> None:
    """Prints values of arrays in a format string, when the program runs.

    Args:
        fmt: as for ``str.format``: ``"x = {}"``, ``"loss {loss:.3f}"``.
        args, kwargs: what is printed: arrays, or trees of them.
        ordered, partitioned: accepted as in JAX: lines always come in the order in which Python
            asked for them, and of whole arrays.
        skip_format_check: whether the format is checked only when it is used.

    Raises:
        ArgumentError: if the format names something that is not given, or does not name something
            that is.

    Example:
        >>> import tfn
        >>> @tfn.jit
        ... def f(x):
        ...     print("x = {}, twice {y:.2f}", x, y=2 * x)
        ...     return x + 1
        >>> y = f(1.5)
        x = 1.5, twice 3.00
    """
    if not skip_format_check:
        fits("debug.print", fmt, args, kwargs)
    callback(_Printer(fmt), *args, ordered=ordered, **kwargs)


def fits(what: str, fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises ArgumentError unless a format fits its arguments.

    Args:
        what: the calling function, for messages.
        fmt: the format string.
        args: the positional arguments.
        kwargs: the arguments with names.

    Raises:
        ArgumentError: if it does not.

    Example:
        >>> fits("print", "{} {x}", (1,), {"x": 2})
    """
    if not isinstance(fmt, str):
        raise ArgumentError(
            f"{what} needs a format string",
            got=shown_value(fmt),
            hint='write "{}", and what is to be shown after it',
        )
    fields, count = set[str](), 0
    try:
        parts = list(string.Formatter().parse(fmt))
    except ValueError as error:
        raise ArgumentError(
            f"{what} cannot read its format",
            got=f"{fmt!r}: {error}",
            hint="write {{ and }} for braces",
        ) from None
    for _, name, _, _ in parts:
        if name is not None:
            first = name.split(".")[0].split("[")[0]
            fields.add(first or builtins.str(count))
            count += not first
    names = {*kwargs, *map(builtins.str, range(len(args)))}
    if fields != names:
        raise ArgumentError(
            f"the format of {what} does not fit its arguments",
            got=f"{fmt!r} with {len(args)} positional and {sorted(kwargs)}",
            hint="missing: " + ", ".join(sorted(fields - names))
            if fields - names
            else "not in the format: " + ", ".join(sorted(names - fields)),
        )


@frozen
class _Printer:
    """Prints its arguments in a format; equal ones are one."""

    fmt: str

    def __call__(self, *args: object, **kwargs: object) -> None:
        args, kwargs = tree.map(
            lambda x: shown(x) if is_array(x) else x,
            (args, kwargs),
            is_leaf=lambda x: type(x) not in (tuple, list, dict),  # others print arrays themselves
        )
        builtins.print(self.fmt.format(*args, **kwargs))


@frozen
class _Silent:
    """A function of arrays alone, without a result.

    Attributes:
        function: of the user.
        structure: of its arguments, as (args, kwargs).
        fixed: those leaves of them that are no arrays, with their places.
    """

    function: Callable[..., Any]
    structure: tree.Structure
    fixed: tuple[tuple[int, object], ...]

    def __call__(self, *values: object) -> None:
        leaves = list(values)
        for i, value in self.fixed:
            leaves.insert(i, value)
        args, kwargs = tree.unflatten(self.structure, leaves)
        self.function(*args, **kwargs)

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)
