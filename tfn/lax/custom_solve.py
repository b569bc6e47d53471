"""Implicit differentiation of solvers: `custom_root`, `custom_linear_solve`.

    f(x, p) = 0      ->    J dx = -df,  J the derivative of f by x, df that by p along dp
    A(p) x = b       ->    A dx = db - dA x;   transposed, A' ct_b = ct_x

So derivatives cost one more linear solve, whatever the solver did, and loops inside of it need no
derivatives at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tfn import tree
from tfn._support.frozen import frozen
from tfn._support.validate import a_function, unfit
from tfn.errors import GradientError, TreeError
from tfn.lax.closed_functions import closed, values, with_common_captures
from tfn.trace.argument import Custom
from tfn.trace.build import several
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.uop import UOp, substitute
from tfn.transforms.arguments import name_of
from tfn.transforms.body import filled, fresh, opened
from tfn.transforms.closure import converted
from tfn.transforms.custom import custom
from tfn.transforms.custom_jvp import custom_jvp
from tfn.transforms.custom_rules import Tangents, lanes
from tfn.transforms.linearize import jvp, linear_transpose, linearize
from tfn.transforms.scan_rules import Pull, Push
from tfn.transforms.shapes import ShapeDtypeStruct

Function = Callable[..., Any]


def custom_root(
    f: Function, initial_guess: Any, solve: Function, tangent_solve: Function, has_aux: bool = False
) -> Any:
    """Finds a root of a function, differentiated by the implicit function theorem.

    Args:
        f: the function, of the structure of its argument; what it closes over may be
            differentiated.
        initial_guess: where the search begins; it has no derivative.
        solve: ``solve(f, initial_guess)`` gives the root, or (root, aux) with `has_aux`; what it
            closes over has no part in derivatives.
        tangent_solve: ``tangent_solve(g, y)`` gives the x with ``g(x) = y`` for a linear g.
        has_aux: whether `solve` returns a pair (root, aux); aux has no derivative.

    Returns:
        The root, a tree like `initial_guess`; (root, aux) with `has_aux`.

    Raises:
        ArgumentError: if one of the functions is no function.
        TreeError: if what one of them gives has not the structure of `initial_guess`.

    Source: Blondel et al. 2022, "Efficient and modular implicit differentiation", arXiv:2105.15183.

    Example:
        >>> import tfn
        >>> def cube_root(a):
        ...     def newton(f, x):
        ...         step = lambda _, x: x - f(x) / (3 * x * x)
        ...         return tfn.lax.fori_loop(0, 30, step, x)
        ...     return tfn.lax.custom_root(lambda x: x**3 - a, 1.0, newton, lambda g, y: y / g(1.0))
        >>> round(float(cube_root(8.0)), 4), round(float(tfn.grad(cube_root)(8.0)), 4)
        (2.0, 0.0833)
    """
    for name, callee in (("f", f), ("solve", solve), ("tangent_solve", tangent_solve)):
        a_function("custom_root", name, callee)
    residual = converted("custom_root", f, [initial_guess])
    structure, like = tree.structure(initial_guess), "initial_guess"
    _same("values", "f", residual.gives, structure, like)

    def at(parameters: Any) -> Function:
        return replace(residual, captured=tuple(parameters))

    def run(parameters: Any, guess: Any) -> Any:
        solution = solve(at(parameters), guess)
        x = solution[0] if has_aux else solution
        _same("a root", "solve", tree.structure(x), structure, like)
        return solution

    whole = converted("custom_root", run, [residual.captured, initial_guess])

    def root(parameters: Any, guess: Any, fixed: Any) -> Any:
        return replace(whole, captured=tuple(fixed))(parameters, guess)

    def rule(primals: Any, tangents: Any) -> Any:
        (parameters, guess, fixed), (directions, *_) = primals, tangents
        solution = differentiated(parameters, guess, fixed)
        x = solution[0] if has_aux else solution
        slope = jvp(lambda p: at(p)(x), (parameters,), (directions,))[1]
        _, linear = linearize(at(parameters), x)
        dx = tangent_solve(linear, tree.map(lambda y: -y, slope))
        _same("x", "tangent_solve", tree.structure(dx), structure, like)
        return solution, ((dx, tree.map(lambda leaf: None, solution[1])) if has_aux else dx)

    differentiated = custom_jvp(root)
    differentiated.defjvp(rule)
    return differentiated(residual.captured, initial_guess, whole.captured)


def custom_linear_solve(
    matvec: Function,
    b: Any,
    solve: Function,
    transpose_solve: Function | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Returns the x with ``matvec(x) = b``, differentiated as the solution of a linear system.

    Args:
        matvec: a linear function; what it closes over may be differentiated.
        b: the right side, of the structure of x.
        solve: ``solve(matvec, b)`` gives x, or (x, aux) with `has_aux`.
        transpose_solve: ``transpose_solve(vecmat, b)`` solves the transposed system, for reverse
            mode.
        symmetric: whether `matvec` is its own transpose; then `solve` will do for both.
        has_aux: whether the solvers return a pair (x, aux); aux has no derivative.

    Returns:
        A tree like `b`; (x, aux) with `has_aux`.

    Raises:
        TreeError: if x has not the structure of b.
        GradientError: in reverse mode, without `transpose_solve`.

    Example:
        >>> import tfn
        >>> def f(a):
        ...     solve = lambda matvec, b: b / a
        ...     return tfn.lax.custom_linear_solve(lambda x: a * x, 6.0, solve, symmetric=True)
        >>> float(f(2.0)), float(tfn.grad(f)(2.0))
        (3.0, -1.5)
    """
    a_function("custom_linear_solve", "matvec", matvec)
    a_function("custom_linear_solve", "solve", solve)
    flat, _, structure = values("b", b)
    types = [ShapeDtypeStruct.of(v) for v in flat]
    both, outer = tree.unflatten(structure, types), tree.structure((b,))

    def checked(name: str, solver: Function, system: Function) -> Function:
        def run(right: Any) -> Any:
            solution = solver(system, right)
            x = solution[0] if has_aux else solution
            _same("x", name, tree.structure(x), structure)
            return solution

        return run

    what = f"custom_linear_solve ({name_of(matvec)})"
    parts = [
        closed(what, matvec, types, outer),
        closed(what, checked("solve", solve, matvec), types, outer),
    ]
    _same("A x", "matvec", parts[0].structure, structure)
    if symmetric:
        parts += [parts[0], closed(what, checked("solve", solve, matvec), types, outer)]
    elif transpose_solve is not None:
        pull = linear_transpose(matvec, both)

        def vecmat(x: Any) -> Any:
            return pull(x)[0]

        parts += [
            closed(what, vecmat, types, outer),
            closed(what, checked("transpose_solve", transpose_solve, vecmat), types, outer),
        ]
    for name, part in zip(("matvec", "solve"), parts):
        for x, y in zip(part.types, types):
            if x.shape != y.shape:
                raise unfit(
                    f"custom_linear_solve needs results of the shapes of b from {name}",
                    (x, y),
                    "matvec takes and gives arrays of these shapes",
                )
    functions, captured, _ = with_common_captures(parts)
    n = len(flat)
    lean = [function(f.src[:n], f.arg.params) for f in functions]
    rules = Solve(len(captured), lean[0], lean[1], *(lean[2:] or (None, None)))
    weak = parts[1].weak
    outputs = custom("custom_linear_solve", functions[1], [*captured, *flat], rules, weak)
    return tree.unflatten(parts[1].structure, outputs)


def _same(
    what: str, name: str, got: tree.Structure, expected: tree.Structure, like: str = "b"
) -> None:
    if got != expected:
        raise TreeError(
            f"{'custom_linear_solve' if like == 'b' else 'custom_root'} needs {what} of the "
            f"structure of {like} from {name}",
            got=f"{tree.show(got)} instead of {tree.show(expected)}",
            hint=f"return the containers that {like} comes in",
        )


@frozen
class Solve:
    """The rules of a linear solve: of functions of parameters and a vector.

    Attributes:
        parameters: how many.
        matvec: the linear function.
        solve: its inverse.
        vecmat: its transpose, None if that is not known.
        transpose_solve: the inverse of that.
    """

    parameters: int
    matvec: UOp
    solve: UOp
    vecmat: UOp | None = None
    transpose_solve: UOp | None = None

    batched = staticmethod(lanes)

    def jvp(self, push: Push, u: UOp, tangents: Tangents) -> Tangents:
        """``solve(db - dA x)``."""
        first = 1 + self.parameters
        parameters, x = u.src[1:first], several(u)
        inputs, outputs = opened(self.matvec)
        moving = {
            p: fresh(p) for p, dp in zip(inputs, tangents[1:first], strict=False) if dp is not None
        }
        actual = dict(zip(inputs, [*parameters, *x], strict=False))
        actual |= {moving[p]: dp for p, dp in zip(inputs, tangents[1:first]) if dp is not None}
        slopes = push(outputs, moving)
        rights = []
        for b, db, slope in zip(u.src[first:], tangents[first:], slopes, strict=True):
            right = filled(db, b)
            rights.append(right if slope is None else right - substitute([slope], actual)[0])
        solution = UOp(Op.CUSTOM, (self.solve, *parameters, *rights), replace(u.arg, rules=self))
        return [*several(solution), *[None] * (len(x) - len(rights))]

    def transpose(self, pull: Pull, u: UOp, cts: Tangents, moving: Sequence[int]) -> Tangents:
        """The transposed system, solved for the cotangents."""
        first = 1 + self.parameters
        if any(i < first for i in moving):
            raise GradientError(
                "the solution of a linear system is not linear in its matrix", hint="use vjp"
            )
        if self.vecmat is None or self.transpose_solve is None:
            raise GradientError(
                "there is no reverse mode through custom_linear_solve without transpose_solve",
                hint="give transpose_solve, or symmetric=True if the matrix is its own transpose",
            )
        rights = [filled(ct, b) for ct, b in zip(cts, u.src[first:], strict=False)]
        rules = Solve(self.parameters, self.vecmat, self.transpose_solve, self.matvec, self.solve)
        arg = Custom(u.arg.name, rules)
        solution = UOp(Op.CUSTOM, (self.transpose_solve, *u.src[1:first], *rights), arg)
        parts = several(solution)
        return [parts[i - first] for i in moving]
