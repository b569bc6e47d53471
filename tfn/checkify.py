"""Errors as values: checks that work inside of programs.

`checkify` makes of a function one that returns an `Error` beside its result: through `jit`, `vmap`
and derivatives, in the steps of loops, in branches that are chosen.  Nothing is raised until
`Error.throw`, outside. ::

    error, y = jit(checkify(f, errors=float_checks))(x)
    error.throw()
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfn import numpy as tnp
from tfn import tree
from tfn._support.validate import a_function, shown
from tfn.array import Array, ArrayLike
from tfn.debug import fits
from tfn.errors import ArgumentError, CheckError, user_line
from tfn.trace import effects, source_lines
from tfn.trace.uop import substitute
from tfn.transforms import runtime_checks
from tfn.transforms.arguments import Function, P, R, argument_names, as_value, show
from tfn.transforms.grad import variable
from tfn.transforms.tracing import record
from tfn.transforms.vmap import vmap

Checks = frozenset[str]

user_checks: Checks = frozenset({"user"})
"""The conditions of `check`."""
nan_checks: Checks = frozenset({"nan"})
"""No operation may give NaN."""
div_checks: Checks = frozenset({"div"})
"""No divisor may be zero."""
index_checks: Checks = frozenset({"index"})
"""No index may be outside of its array."""
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks


@dataclass(frozen=True, slots=True, repr=False)
class Error:
    """The first failure of a function, or none; a pytree that passes through transforms.

    Attributes:
        code: 0, or the number of the check that failed.
        payload: values that the messages of the checks show.
        sites: the checks.

    Example:
        >>> import tfn
        >>> error, _ = checkify(tfn.numpy.log, errors=nan_checks)(-1.0)
        >>> error.get() is None
        False
    """

    code: Any
    payload: tuple[Any, ...]
    sites: tuple[runtime_checks.Site, ...]

    def get(self) -> str | None:
        """Returns the message and the line of each lane that failed; None if none did."""
        codes = np.asarray(self.code)
        if not codes.ndim:
            return runtime_checks.text(self.sites, int(codes), self.payload)
        messages = [
            f"at mapped index {', '.join(map(str, at))}: {text}"
            for at in np.ndindex(*codes.shape)
            if (
                text := runtime_checks.text(
                    self.sites, int(codes[at]), [x[at] for x in self.payload]
                )
            )
        ]
        return "\n".join(messages) or None

    def throw(self) -> None:
        """Raises the failure, if there is one.

        Raises:
            CheckError: with the text of `get`.
        """
        check_error(self)

    def __repr__(self) -> str:
        return f"Error({'traced' if getattr(self.code, 'owner', None) else self.get()})"


tree.register_node(
    Error,
    lambda error: ((error.code, *error.payload), error.sites),
    lambda sites, values: Error(values[0], tuple(values[1:]), sites),
)


def checkify(f: Callable[P, R], errors: Checks = user_checks) -> Callable[P, tuple[Error, R]]:
    """Returns a function that returns (error, result) for the arguments of `f`.

    Args:
        f: a function of arrays.
        errors: the checks: a union of `user_checks`, `nan_checks`, `div_checks`, `index_checks`.

    Example:
        >>> import tfn
        >>> def f(x):
        ...     check(x > 0, "x is {}, and must be positive", x)
        ...     return tfn.numpy.log(x)
        >>> error, y = tfn.jit(checkify(f))(-1.0)
        >>> error.get().splitlines()[0]
        'x is -1.0, and must be positive'
        >>> checkify(tfn.numpy.log, errors=nan_checks)(2.0)[0].get()
    """
    wrong = set(errors) - all_checks
    if wrong:
        raise ArgumentError(
            "there are no such checks",
            got=", ".join(sorted(wrong)),
            hint="checks are " + ", ".join(sorted(all_checks)),
        )

    a_function("checkify", "f", f)
    untyped: Function = f

    @functools.wraps(f)
    def run(*args: P.args, **kwargs: P.kwargs) -> tuple[Error, R]:
        leaves, structure = tree.flatten((args, kwargs))
        names = argument_names(f, structure)
        values = [as_value(x, name) for x, name in zip(leaves, names, strict=True)]

        def call(xs: list[Any]) -> object:
            new_args, new_kwargs = tree.unflatten(structure, xs)
            return untyped(*new_args, **new_kwargs)

        with source_lines.tracking():
            recorded = record("checkify", f, call, values, names, known=False)
            variables = [variable(value, value) for value in values]
            places = dict(zip(recorded.inputs, variables, strict=True))
            cells = recorded.cells
            graphs = substitute([*recorded.after, *recorded.outputs], places)
            outputs, failures, sites = runtime_checks.checked(graphs, frozenset(errors))
        for cell, last in zip(cells, outputs):
            effects.set_current(recorded.trace, cell, last)
        outputs = outputs[len(cells) :]
        outcome = failures.flat(range(1, len(sites) + 1))
        weak = [*recorded.weak, *(False for _ in outcome)]
        results, (code, *payload) = recorded.evaluate(outputs, outcome, weak=weak)
        error = Error(code, tuple(payload), tuple(sites))
        return error, tree.unflatten(recorded.structure, results)

    return run


def check(
    pred: ArrayLike, msg: str, *fmt_args: object, debug: bool = False, **kwargs: object
) -> None:
    """Checks that a condition holds; `msg` is formatted with the values of arrays if it does not.

    Inside of `checkify` a failure is returned; elsewhere it is raised, when the program runs.

    Args:
        pred: a boolean scalar.
        msg: a format string, as for `debug.print`.
        fmt_args, kwargs: arrays, or trees of them, for the format.
        debug: whether the check counts only inside of `checkify`.

    Raises:
        CheckError: if it does not hold.
        ArgumentError: for a condition that is not a boolean scalar, or a format that does not fit.

    Example:
        >>> check(1 + 1 == 2, "arithmetic has changed")
    """
    fits("check", msg, fmt_args, kwargs)
    holds = tnp.asarray(pred)
    if holds.shape or holds.dtype != bool:
        raise ArgumentError(
            "check needs a boolean scalar", got=show(holds), hint="compare, and reduce with .all()"
        )
    leaves, structure = tree.flatten((fmt_args, kwargs))
    values = [tnp.asarray(leaf) for leaf in leaves]
    site = runtime_checks.Site(msg, user_line(), structure)
    effects.act(
        runtime_checks.raising([site], debug), [tnp.where(holds, np.int32(0), np.int32(1)), *values]
    )


def debug_check(pred: ArrayLike, msg: str, *fmt_args: object, **kwargs: object) -> None:
    """Checks a condition inside of `checkify` only; elsewhere it costs nothing but a call.

    Args:
        pred: a boolean scalar.
        msg: a format string, as for `debug.print`.
        fmt_args, kwargs: arrays, or trees of them, for the format.

    Raises:
        ArgumentError: as `check`.

    Example:
        >>> debug_check(1 + 1 == 3, "not checked here")
    """
    check(pred, msg, *fmt_args, debug=True, **kwargs)


def check_error(error: Error) -> None:
    """Raises an error if there is one; inside of `checkify`, returns it from there instead.

    Raises:
        CheckError: with the text of `Error.get`.
        ArgumentError: for something else than an `Error`.

    Example:
        >>> import tfn
        >>> check_error(checkify(tfn.numpy.log, errors=nan_checks)(2.0)[0])
    """
    if not isinstance(error, Error):
        raise ArgumentError(
            "check_error needs an Error",
            got=f"error={shown(error)}",
            hint="pass what a checkified function returned first",
        )
    if not isinstance(error.code, Array) or error.code.owner is None:  # it may be NumPy's
        message = error.get()
        if message is not None:
            raise CheckError(message, where="")
    elif error.code.shape:
        vmap(check_error)(error)
    else:
        effects.act(runtime_checks.raising(error.sites), [error.code, *error.payload])
