"""The residuals of a function: what its derivative keeps between forward and backward pass."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from tfn import tree
from tfn._support.validate import a_function
from tfn.trace import source_lines
from tfn.trace.concretization import show
from tfn.trace.op import Op
from tfn.transforms.jit import Jitted
from tfn.transforms.linearize import vjp


def saved_residuals(f: Callable[..., Any], *args: Any) -> list[tuple[str, str]]:
    """The arrays that reverse mode keeps for the backward pass of a function, with their origins.

    Args:
        f: a function of arrays, with its `checkpoint`, if it has one.
        args: its arguments; `ShapeDtypeStruct` will do for an array.

    Returns:
        For each array its type, as ``f32[2,3]``, and where it comes from.

    Raises:
        GradientError: if the function has no derivative.

    Example:
        >>> import tfn.numpy as tnp
        >>> saved_residuals(lambda x: tnp.sin(x).sum(), tnp.ones(3))[0][0]
        'f32[3]'
    """
    a_function("saved_residuals", "f", f)
    with source_lines.tracking():
        traced = Jitted(lambda *args: vjp(f, *args)[1]).trace(*args)
        jaxpr = traced.jaxpr
    names = [
        f"{name}{tree.keystr(path)}"
        for name, arg in zip(_parameters(f, len(args)), args, strict=True)
        for path, _ in tree.leaves_with_path(arg)
    ]
    found = []
    for node in dict.fromkeys(jaxpr.outputs):
        line = source_lines.of(node)
        if node.op is Op.PARAM:
            origin = f"from the argument {names[node.arg.index]}"
        elif node.op is Op.CONST:
            origin = "a constant"
        else:
            origin = f"output of {node.op.value}" + (f", {line}" if line else "")
        found.append((show(node), origin))
    return found


def _parameters(f: Callable[..., Any], count: int) -> list[str]:
    """The names of the first parameters of a function, or ``args[0]`` where it has none."""
    try:
        parameters = list(signature(f).parameters.values())
    except (TypeError, ValueError):  # some builtins have none
        parameters = []
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [*named[:count], *(f"args[{i}]" for i in range(len(named), count))]


def print_saved_residuals(f: Callable[..., Any], *args: Any) -> None:
    """Print what `saved_residuals` finds, an array on each line.

    Example:
        >>> print_saved_residuals(lambda x: 3 * x, 2.0)
    """
    for kind, origin in saved_residuals(f, *args):
        print(f"{kind} {origin}")
