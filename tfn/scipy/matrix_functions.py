"""Functions of square matrices by Schur's form: square roots, Sylvester's equation, polar factors.

Sources: N. J. Higham, "Functions of matrices", 2008, sections 4.6 (Schur-Parlett), 6.2 (square
roots); R. H. Bartels and G. W. Stewart, "Solution of the matrix equation AX + XB = C", 1972.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfn import lax
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.dtypes import COMPLEXES, complex_of, finfo, part
from tfn.errors import ArgumentError, ShapeError
from tfn.extend import a_function, custom_jvp, one_of, operands, rank
from tfn.numpy.linalg.stacks import adjoint, matrices

Pair = tuple[Array, Array]


def schur(a: ArrayLike, output: str = "real") -> Pair:
    """The factors T and Z of a = Z T Z^H: Z is unitary, and T an upper triangle.

    Args:
        a: square matrices, the last two axes.
        output: "real" keeps real matrices real, with 2 x 2 blocks for pairs of complex eigenvalues;
            "complex" makes T a triangle of complex numbers.

    Returns:
        A tuple of T and Z.

    Raises:
        ArgumentError: for another output.
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> schur(tnp.array([[1.0, 2.0], [0.0, 3.0]]))[0].tolist()
        [[1.0, 2.0], [0.0, 3.0]]
    """
    one_of("schur", "output", output, ("real", "complex"))
    x = matrices("schur", a, square=True)
    t, z = lax.linalg.schur(x.astype(complex_of(x.dtype)) if output == "complex" else x)
    return t, z


def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> Pair:
    """The complex Schur form of a real one: a triangle in place of blocks.

    Args:
        T: the triangles with blocks of `schur`.
        Z: the orthogonal factors.
        check_finite: accepted as in SciPy: what is not finite gives NaN.

    Example:
        >>> import tfn.numpy as tnp
        >>> t, z = rsf2csf(*schur(tnp.array([[0.0, 1.0], [-1.0, 0.0]])))
        >>> t[1, 0].item()
        0j
    """
    t, turn = schur(T, "complex")
    return t, matrices("rsf2csf", Z).astype(turn.dtype) @ turn


def hessenberg(a: ArrayLike, *, calc_q: bool = False) -> Any:
    """The factors of a = Q H Q^H: Q is unitary, and H zero below its first subdiagonal.

    Args:
        a: square matrices, the last two axes.
        calc_q: whether Q is returned, too.

    Returns:
        H, or a tuple of H and Q.

    Raises:
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> hessenberg(tnp.eye(2)).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    packed, scales = lax.linalg.hessenberg(a)
    h = jnp.triu(packed, -1)
    if not calc_q:
        return h
    inner = lax.linalg.householder_product(packed[..., 1:, :-1], scales)
    n, batch = packed.shape[-1], packed.shape[:-2]
    square = jnp.broadcast_to(jnp.eye(n, dtype=packed.dtype), (*batch, n, n))
    return h, square.at[..., 1:, 1:].set(inner)


def solve_sylvester(
    A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8
) -> Array:
    """The solution X of A X + X B = C.

    Args:
        A: square matrix of m rows, or a stack of them.
        B: square matrix of n rows.
        C: matrix of m rows and n columns.
        method: accepted as in JAX: "schur" or "eigen"; Schur's form is used.
        tol: accepted as in JAX.

    Returns:
        A matrix of the shape of `C`; not finite where A and -B have an eigenvalue in common.

    Raises:
        ArgumentError: for another method.
        ShapeError: if the shapes do not fit.

    Example:
        >>> import tfn.numpy as tnp
        >>> eye = tnp.eye(2)
        >>> solve_sylvester(eye, eye, 2 * eye).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    one_of("solve_sylvester", "method", method, ("schur", "eigen"))
    a, b = (matrices("solve_sylvester", x, square=True) for x in (A, B))
    c = matrices("solve_sylvester", C)
    if c.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ShapeError(
            "solve_sylvester needs as many rows as A has, and as many columns as B",
            got=f"A {a.shape}, B {b.shape}, C {c.shape}",
            hint="A X + X B = C",
        )
    dtype = jnp.result_type(a, b, c)
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2], c.shape[:-2])
    a, b, c = (jnp.broadcast_to(x.astype(dtype), (*batch, *x.shape[-2:])) for x in (a, b, c))
    solution: Array = _sylvester(a, b, c)
    return solution


@custom_jvp
def _sylvester(a: Array, b: Array, c: Array) -> Array:
    if a.ndim > 2:
        from_stacks = [x.reshape(-1, *x.shape[-2:]) for x in (a, b, c)]
        found: Array = lax.map(lambda xs: _sylvester_of(*xs), tuple(from_stacks)).reshape(c.shape)
        return found
    return _sylvester_of(a, b, c)


def _sylvester_of(a: Array, b: Array, c: Array) -> Array:
    s, u = schur(a, "complex")
    t, v = schur(b, "complex")
    f = adjoint(u) @ c.astype(u.dtype) @ v
    columns, one = jnp.arange(t.shape[-1]), jnp.eye(s.shape[-1], dtype=s.dtype)

    def column(j: Array, found: Array) -> Array:
        right = f[:, j] - found @ jnp.where(columns < j, t[:, j], 0)
        shifted = s + t[j, j] * one
        line = lax.linalg.triangular_solve(shifted, right[:, None], left_side=True)
        return found.at[:, j].set(line[:, 0])

    solved = lax.fori_loop(0, t.shape[-1], column, jnp.zeros_like(f))
    x = u @ solved @ adjoint(v)
    solution: Array = x if c.dtype in COMPLEXES else x.real
    return solution


@_sylvester.defjvp
def _sylvester_jvp(primals: Any, tangents: Any) -> Pair:
    (a, b, c), (da, db, dc) = primals, tangents
    x = _sylvester(a, b, c)
    return x, _sylvester(a, b, dc - da @ x - x @ db)


def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The principal square roots of matrices, whose eigenvalues have no negative real part.

    Args:
        A: square matrices, the last two axes.
        blocksize: accepted as in SciPy: 1.

    Returns:
        Complex matrices; NaN where a matrix has no root.

    Raises:
        ArgumentError: for another block size.
        ShapeError: unless the last two axes are of one size.

    Example:
        >>> import tfn.numpy as tnp
        >>> sqrtm(tnp.array([[4.0, 0.0], [0.0, 9.0]])).real.tolist()
        [[2.0, 0.0], [0.0, 3.0]]
    """
    if blocksize != 1:
        raise ArgumentError("sqrtm has blocks of 1", got=f"blocksize={blocksize}")
    a = matrices("sqrtm", A, square=True)
    root: Array = _sqrtm(a.astype(complex_of(a.dtype)))
    return root


@custom_jvp
def _sqrtm(a: Array) -> Array:
    if a.ndim > 2:
        roots: Array = lax.map(_sqrtm_of, a.reshape(-1, *a.shape[-2:])).reshape(a.shape)
        return roots
    return _sqrtm_of(a)


def _sqrtm_of(a: Array) -> Array:
    t, z = schur(a, "complex")
    diagonal = jnp.sqrt(jnp.diagonal(t))
    rows = jnp.arange(t.shape[-1])

    # The rows above the diagonal solve a triangular system; the others have their values.
    def column(j: Array, root: Array) -> Array:
        above = (rows[:, None] < j) & (rows < j)
        shifted = jnp.where(above, root, 0) + jnp.diag(
            jnp.where(rows < j, diagonal[j], 1).astype(root.dtype)
        )
        right = jnp.where(rows < j, t[:, j], 0)
        line = lax.linalg.triangular_solve(shifted, right[:, None], left_side=True)[:, 0]
        return root.at[:, j].set(jnp.where(rows < j, line, root[:, j]))

    root: Array = lax.fori_loop(0, t.shape[-1], column, jnp.diag(diagonal))
    return z @ root @ adjoint(z)


@_sqrtm.defjvp
def _sqrtm_jvp(primals: Any, tangents: Any) -> Pair:
    root = _sqrtm(primals[0])
    return root, _sylvester(root, root, tangents[0])


def funm(A: ArrayLike, func: Callable[[Array], Array], disp: bool = True) -> Any:
    """A function of matrices, given for numbers: that of the eigenvalues, by Parlett's recurrence.

    Eigenvalues that are close lose digits, as in SciPy.

    Args:
        A: square matrix.
        func: function of complex arrays, element by element.
        disp: accepted as in SciPy; if it is false, an estimate of the error is returned too.

    Returns:
        A complex matrix, or a tuple of it and the estimate.

    Raises:
        ArgumentError: unless `func` can be called.
        ShapeError: unless the matrix is a square.

    Example:
        >>> import tfn.numpy as tnp
        >>> funm(tnp.array([[0.0, 0.0], [0.0, 1.0]]), tnp.exp).real.round(4)
        Array([[1.    , 0.    ],
               [0.    , 2.7183]], dtype=float32)
    """
    a_function("funm", "func", func)
    a = matrices("funm", A, square=True)
    rank("funm", a, 2, 2)
    t, z = schur(a, "complex")
    values = jnp.diagonal(t)
    diagonal = func(values)
    rows = jnp.arange(t.shape[-1])
    eps = float(finfo(part(t.dtype)).eps)

    def column(j: Array, f: Array) -> Array:
        above = (rows[:, None] < j) & (rows < j)
        gap = values - values[j]
        gap = jnp.where(gap == 0, eps, gap)
        shifted = jnp.where(above & (rows[:, None] != rows), t, 0) + jnp.diag(
            jnp.where(rows < j, gap, 1)
        )
        known = jnp.where(rows < j, t[:, j], 0)
        right = jnp.where(rows < j, jnp.where(above, f, 0) @ known - known * diagonal[j], 0)
        line = lax.linalg.triangular_solve(shifted, right[:, None], left_side=True)[:, 0]
        return f.at[:, j].set(jnp.where(rows < j, line, f[:, j]))

    f = lax.fori_loop(0, t.shape[-1], column, jnp.diag(diagonal))
    result = z @ f @ adjoint(z)
    if disp:
        return result
    gaps = abs(values[:, None] - values) + jnp.where(rows[:, None] == rows, jnp.inf, 0)
    least = jnp.min(gaps, initial=jnp.inf)
    largest = abs(jnp.triu(t, 1)).max(initial=0.0)
    error = jnp.minimum(1, jnp.maximum(eps, eps / least * largest))
    return result, error


def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> Pair:
    """The factors of a = U P, with orthonormal columns or rows U and hermitian P, or of a = P U.

    Args:
        a: matrices, the last two axes.
        side: "right" for U P, "left" for P U.
        method: accepted as in JAX: "qdwh" or "svd"; singular values are used.
        eps: accepted as in JAX.
        max_iterations: accepted as in JAX.

    Returns:
        A tuple of U and P.

    Raises:
        ArgumentError: for another side or method.
        ShapeError: if there are fewer than two axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> polar(tnp.array([[0.0, 2.0], [1.0, 0.0]]))[1].round(4).tolist()
        [[1.0, 0.0], [0.0, 2.0]]
    """
    one_of("polar", "side", side, ("right", "left"))
    one_of("polar", "method", method, ("qdwh", "svd"))
    u, s, vh = jnp.linalg.svd(matrices("polar", a), full_matrices=False)
    if side == "right":
        return u @ vh, adjoint(vh) @ (s[..., None] * vh)
    return u @ vh, (u * s[..., None, :]) @ adjoint(u)


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
) -> tuple[Array, ...]:
    """The product of the orthonormal factor Q of a = Q R with matrices, and R.

    Args:
        a: matrix.
        c: matrix, or vector, by which Q is multiplied.
        mode: "left" for Q c, "right" for c Q.
        pivoting: whether columns of `a` are taken in the order of what is left of their lengths.
        conjugate: whether Q is conjugated.

    Returns:
        A tuple of the product and R, and with pivoting the order of the columns.

    Raises:
        ArgumentError: for another mode.
        ShapeError: if the shapes do not fit.

    Example:
        >>> import tfn.numpy as tnp
        >>> product, r = qr_multiply(tnp.eye(2), tnp.eye(2))
        >>> abs(product).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    one_of("qr_multiply", "mode", mode, ("left", "right"))
    x, other = matrices("qr_multiply", a), operands.array_of("qr_multiply", c)
    q, r, *order = lax.linalg.qr(x, pivoting=pivoting, full_matrices=False)
    if mode == "left" and other.shape[0] != q.shape[-1]:  # a square Q, where c has its rows
        q = lax.linalg.qr(x, pivoting=pivoting, full_matrices=True)[0]
    q = jnp.conj(q) if conjugate else q
    return (q @ other if mode == "left" else other @ q), r, *order


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[int, int] | None = None,
    tol: float | None = None,
    key: object = None,
) -> Any:
    """The ascending eigenvalues of hermitian tridiagonal matrices, and their eigenvectors.

    Args:
        d: real diagonals, the last axis.
        e: the diagonals below, one element less.
        eigvals_only: whether to return the values alone.
        select: "a" for all, "i" for those from place ``select_range[0]`` to ``select_range[1]``.
        select_range: the places, with "i".
        tol: accepted as in SciPy: the accuracy is that of the dtype.
        key: accepted as in JAX.

    Returns:
        Vectors of values, or a tuple of them and of matrices with the vectors in columns.

    Raises:
        ArgumentError: for another `select`, or "i" without a range.
        ShapeError: unless `e` has one element less than `d`.

    Example:
        >>> import tfn.numpy as tnp
        >>> eigh_tridiagonal(tnp.array([2.0, 2.0]), tnp.array([1.0]), eigvals_only=True).tolist()
        [1.0, 3.0]
    """
    one_of("eigh_tridiagonal", "select", select, ("a", "i"))
    if (select == "i") != (select_range is not None):
        raise ArgumentError(
            "eigh_tridiagonal needs a range of places with select='i', and with no other",
            got=f"select={select!r}, select_range={select_range}",
        )
    diagonal, below = (
        operands.array_of("eigh_tridiagonal", d),
        operands.array_of("eigh_tridiagonal", e),
    )
    n = diagonal.shape[-1] if diagonal.ndim else 0
    if below.shape[-1:] != (n - 1,):
        raise ShapeError(
            "eigh_tridiagonal needs one element less below the diagonal",
            got=f"{diagonal.shape}, {below.shape}",
        )
    eye = jnp.eye(n, dtype=below.dtype)
    low = below[..., :, None] * eye[1:, 1:]
    wide = [(0, 0)] * (low.ndim - 2)
    low = jnp.pad(low, [*wide, (1, 0), (0, 1)])
    matrix = diagonal[..., :, None] * eye + low + adjoint(low)
    kept = slice(None) if select_range is None else slice(select_range[0], select_range[1] + 1)
    if eigvals_only:
        return jnp.linalg.eigvalsh(matrix)[..., kept]
    values, vectors = jnp.linalg.eigh(matrix)
    return values[..., kept], vectors[..., kept]
