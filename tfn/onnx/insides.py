"""The inside of tfn as `save` needs it, in one place: all else imports the public face.

A function is a graph of nodes: an operation (`Op`), its sources, its argument, a shape and a dtype.
`anyhow` gives it for example arguments, `lowered` without what ONNX has no types for.
"""

from __future__ import annotations

from collections.abc import Callable

from tfn.exporting import Input as Input
from tfn.exporting import Numbers as Numbers
from tfn.exporting import Outline as Outline
from tfn.exporting import Polynomial as Polynomial
from tfn.exporting import Portable as Portable
from tfn.exporting import Symbolic as Symbolic
from tfn.exporting import anyhow as anyhow
from tfn.exporting.generalize import basis as basis
from tfn.exporting.generalize import solved as solved
from tfn.exporting.generalize import witnesses as witnesses
from tfn.extend import Op as Op
from tfn.extend import UOp as UOp
from tfn.extend import argument as argument
from tfn.extend import form as form
from tfn.extend import name_of as name_of
from tfn.extend import param as param
from tfn.extend import plain
from tfn.extend import walk as walk
from tfn.lax.linalg.lapack_programs import without_lapack
from tfn.lower.graph.complex_pairs import lower_complex
from tfn.lower.graph.fourier import Products
from tfn.lower.math.decompose import DECOMPOSE
from tfn.trace.oracle import ROTATIONS as ROTATIONS

COMPLEX_OPS = frozenset({Op.COMPLEX, Op.REAL, Op.IMAG, Op.FFT})


def lowered(function: Portable) -> UOp:
    """The closed function with rules of derivatives, routines of LAPACK and complex values gone."""
    closed = plain(without_lapack(function.jaxpr).function)
    kinds = {p.dtype.kind for p in closed.arg.params} | {u.dtype.kind for u in closed.src}
    if "c" in kinds or not _any(closed, lambda u: u.op in COMPLEX_OPS):
        return closed
    real: UOp = lower_complex(closed, Products.ALL)
    return real


def _any(function: UOp, test: Callable[[UOp], bool]) -> bool:
    return any(
        test(u) or (u.op is Op.FUNCTION and u is not function and _any(u, test))
        for u in walk(function.src)
    )


def simpler(node: UOp) -> UOp:
    """An elementary function by basic operations, as processors compute it."""
    return DECOMPOSE[node.op](node, *node.src)
