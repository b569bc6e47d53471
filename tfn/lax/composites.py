"""`composite`: a function that stays one operation with a name and attributes in every trace."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tfn._support.validate import a_function, integer
from tfn.errors import ArgumentError
from tfn.transforms.call import call


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """An operation that is composed of others, and known by a name.

    It is what the decomposition is, under all transforms, and prints as a call of the name: those
    who read a jaxpr or write a backend find it there whole.

    Args:
        decomposition: ``decomposition(*operands, **attributes)``: operands are trees of arrays,
            attributes Python values, which are known when the function is traced.
        name: of the operation, such as "my.softmax".
        version: of its meaning, which a version above 0 prints with the name.

    Raises:
        ArgumentError: for a name that is none, or an attribute that is traced.

    Example:
        >>> import functools, tfn
        >>> @functools.partial(composite, name="my.power")
        ... def power(x, /, *, exponent):
        ...     return x**exponent
        >>> float(power(3.0, exponent=2)), float(tfn.grad(lambda x: power(x, exponent=2))(3.0))
        (9.0, 6.0)
        >>> "call[my.power{exponent=2}]" in str(tfn.make_jaxpr(lambda x: power(x, exponent=2))(3.0))
        True
    """
    a_function("composite", "decomposition", decomposition)
    if not isinstance(name, str) or not name:
        raise ArgumentError("a composite has a name", got=f"name={name!r}")
    title = f"{name}.v{version}" if integer("composite", "version", version, 0) else name

    @functools.wraps(decomposition)
    def run(*operands: Any, **attributes: Any) -> Any:
        for key, value in attributes.items():
            if getattr(value, "owner", None) is not None:
                raise ArgumentError(
                    f"the attribute {key} of the composite {name} is traced",
                    got=repr(value)[:80],
                    hint="pass arrays by position; attributes are Python values",
                )
        given = {key: value for key, value in attributes.items() if value is not None}
        shown = ", ".join(f"{key}={value!r}" for key, value in sorted(given.items()))
        of_operands = functools.partial(decomposition, **attributes)
        return call(of_operands, name=f"{title}{{{shown}}}" if shown else title)(*operands)

    return run
