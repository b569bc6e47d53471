"""Functions of tfn as functions of PyTorch, with a derivative for its autograd.

tensors -> arrays -> the function, compiled -> tensors
gradients of results -> the transposed derivative, compiled -> gradients of arguments
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfn import dtypes, tree, vjp
from tfn.errors import ArgumentError
from tfn.extend import Jitted, a_function, name_of
from tfn.torch.exchange import array, tensor
from tfn.torch.library import pytorch


def to_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays as one of tensors, which PyTorch differentiates.

    The function is compiled once for each type of arguments, and so is its derivative, which runs
    the function again.  Results are tensors of their own.  It is a layer like any other, but for a
    second derivative, which it does not have.

    Args:
        function: a pure function of arrays: of trees of them, of which there may be several; it
            returns a tree.

    Raises:
        ArgumentError: if `function` cannot be called, and in a call for a result that is no array.
        NotAvailableError: without PyTorch, and in a call for tensors that tfn has no arrays for.

    Example:
        >>> import torch, tfn.numpy as tnp  # doctest: +SKIP
        >>> norm = to_torch(lambda x: tnp.sqrt((x * x).sum()))  # doctest: +SKIP
        >>> x = torch.tensor([3.0, 4.0], requires_grad=True)  # doctest: +SKIP
        >>> norm(x).backward(); x.grad  # doctest: +SKIP
        tensor([0.6000, 0.8000])
    """
    a_function("to_torch", "function", function)
    torch, name = pytorch(), name_of(function)

    def flat(leaves: Any, structure: Any) -> Any:
        results = function(*tree.unflatten(structure, leaves))
        return tree.flatten(results)

    programs: dict[Any, tuple[Any, Any, list[Any]]] = {}

    def compiled(structure: Any) -> tuple[Any, Any, list[Any]]:
        """The function and its derivative for a structure, and the structure of results."""
        if structure not in programs:
            shape: list[Any] = []

            def forward(*leaves: Any) -> tuple[Any, ...]:
                results, outline = flat(leaves, structure)
                shape[:] = [outline]
                return tuple(results)

            def backward(leaves: Any, weights: Any) -> Any:
                trained = [x for x in leaves if _has_slopes(x)]

                def of_trained(*values: Any) -> list[Any]:
                    given = iter(values)
                    moved = [next(given) if _has_slopes(x) else x for x in leaves]
                    return [y for y in flat(moved, structure)[0] if _has_slopes(y)]

                return vjp(of_trained, *trained)[1](weights)

            programs[structure] = Jitted(forward), Jitted(backward), shape
        return programs[structure]

    def run(context: Any, structure: Any, *leaves: Any) -> Any:
        context.structure = structure
        context.save_for_backward(*leaves)
        forward, _, _ = compiled(structure)
        results = list(forward(*map(array, leaves)))
        made = []
        while results:
            made.append(tensor(results.pop()))
        context.mark_non_differentiable(*(t for t in made if not _is_trained(t)))
        return tuple(made[::-1])

    def slopes(context: Any, *weights: Any) -> Any:
        leaves = context.saved_tensors
        _, backward, _ = compiled(context.structure)
        arrays = [array(t) for t in leaves]
        given = [array(w.resolve_conj().conj()) for w in weights if _is_trained(w)]
        found = iter(backward(arrays, given))
        kept = [tensor(next(found)).conj() if _is_trained(t) else None for t in leaves]
        return (None, *kept)

    members = {"forward": staticmethod(run), "backward": staticmethod(slopes)}
    operation = type(name, (torch.autograd.Function,), members)

    def layer(*args: Any) -> Any:
        leaves, structure = tree.flatten(args)
        if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            raise ArgumentError(
                f"{name} takes tensors, since it is a function of PyTorch now",
                got=", ".join(type(leaf).__name__ for leaf in leaves),
                hint="torch.as_tensor makes one of a number",
            )
        results = operation.apply(structure, *leaves)  # type: ignore[attr-defined]
        return tree.unflatten(compiled(structure)[2][0], results)

    layer.__name__, layer.__doc__ = name, function.__doc__
    return layer


def _has_slopes(x: Any) -> bool:
    return np.dtype(x.dtype) in dtypes.INEXACT


def _is_trained(t: Any) -> bool:
    return bool(t.is_floating_point() or t.is_complex())
