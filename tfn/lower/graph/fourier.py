"""Fourier transforms as products with matrices of roots of unity, in mixed radix, or by Bluestein.

    fft x: c64[B, 1024]   ->   x as f32[B, 32, 32, 2]
                               products with f32[32, 2, 32, 2], times roots, and again

A line of n = n1 n2 elements is n2 lines of n1, roots of unity for each element, and n1 lines of n2
(Cooley and Tukey).  A line of at most `MAX_RADIX` is one contraction, in which a complex number is
a row of two real ones; a prime length above that is a convolution, by transforms of a power of two
(Bluestein).  The matrices depend on no argument: `constants` has them computed once.

Source: J. W. Cooley, J. W. Tukey 1965, "An algorithm for the machine calculation of complex Fourier
series"; L. I. Bluestein 1970, "A linear filtering approach to the computation of the discrete
Fourier transform".
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import pi, prod

from tfn.dtypes import INT64, DType, part
from tfn.lower.math.complex_functions import Pair
from tfn.trace import build
from tfn.trace.argument import Fft, FftType
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const

MAX_RADIX = 32
"""The longest line that is one product: of 64 real terms, which registers hold in blocks.

A line of 1,024 took 4.3 us in two products of 32, SciPy's pocketfft 7.1.
"""

MAX_ELEMENTS = 1 << 11
"""Elements of a transform up to which products are faster than a library of the host.

Its call takes 2 to 10 us, and then fewer operations.
"""

INVERSE = frozenset({FftType.IFFT, FftType.IRFFT})


class Products(Enum):
    """Transforms that are products; the others are functions of the host's library.

    Under batch invariance none are, since a batch of many lines is for the library, one of few not.
    """

    ALL = "all"
    FAST = "fast"
    NONE = "none"

    def has(self, arg: Fft, shape: Shape) -> bool:
        """Whether a transform is one of them: a fast one takes less than a call of the library."""
        is_small = prod(shape) <= MAX_ELEMENTS and all(_is_smooth(n) for n in arg.lengths)
        return self is Products.ALL or (self is Products.FAST and is_small)


def _is_smooth(n: int) -> bool:
    """Whether a length is a product of factors that have a matrix each."""
    while n > MAX_RADIX:
        radix = _radix(n)
        if radix == 1:
            return False
        n //= radix
    return True


def transform(arg: Fft, x: Pair | UOp, dtype: DType) -> Pair | UOp:
    """The transform over the last axes of a value; its result has the dtype."""
    kind, lengths = arg.kind, arg.lengths
    parts = x if isinstance(x, Pair) else Pair(x, build.zeros(x.shape, part(dtype)))
    z, rank = _joined(*parts), parts.re.ndim
    order = [*enumerate(lengths, rank - len(lengths))]
    # Only one half of the last axis takes part in the transforms along others.
    if kind is FftType.RFFT:
        order = order[::-1]
    for axis, n in order:
        z = build.moveaxis(z, axis, rank - 1)
        if kind is FftType.IRFFT and axis == rank - 1:
            z = _mirrored(z, n)
        z = _lines(z, n, kind in INVERSE)
        if kind is FftType.RFFT and axis == rank - 1:
            z = build.shrink(z, (0,) * z.ndim, (*z.shape[:-2], n // 2 + 1, 2))
        z = build.moveaxis(z, rank - 1, axis)
    if kind in INVERSE:
        z = z * (1.0 / prod(lengths))
    result = _parts(z)
    return result.re if kind is FftType.IRFFT else result


def _mirrored(z: UOp, n: int) -> UOp:
    """Lines of n whose second half is the conjugate of the first, from the first half.

    The imaginary parts of the first element and of the middle one do not count.
    """
    half, tail = _parts(z), (n - 1) // 2
    last, rest = half.re.ndim - 1, half.re.shape[:-1]
    low = (*(0,) * last, 1)
    mirrored = [
        build.flip(build.shrink(u, low, (*rest, 1 + tail)), (last,)) for u in (half.re, -half.im)
    ]
    at = build.iota(half.im.shape, last, INT64)
    inside = (const(0, INT64, at.shape) < at) & (at * 2 < n)
    im = build.where(inside, half.im, build.zeros(half.im.shape, half.im.dtype))
    parts = zip((half.re, im), mirrored, strict=True)
    return _joined(*(build.concat(lines, last) for lines in parts))


def _joined(re: UOp, im: UOp) -> UOp:
    """Both parts along a new last axis."""
    return build.concat([build.reshape(u, (*u.shape, 1)) for u in (re, im)], re.ndim)


def _parts(z: UOp) -> Pair:
    shape, low = z.shape[:-1], (0,) * (z.ndim - 1)
    re, im = (build.reshape(build.shrink(z, (*low, i), (*shape, i + 1)), shape) for i in range(2))
    return Pair(re, im)


# Lines: the transformed axis is the last but one, before that of the two parts.


def _lines(z: UOp, n: int, inverse: bool) -> UOp:
    """The transforms of lines of n, without a factor."""
    if n == 1:
        return z
    batch = z.shape[:-2]
    if n <= MAX_RADIX:
        return _times_matrix(z, n, inverse)
    radix = _radix(n)
    if radix == 1:
        return _bluestein(z, n, inverse)
    rest = n // radix
    # Element rest * a + b: lines over a, for each b.
    z = build.reshape(z, (*batch, radix, rest, 2))
    z = build.moveaxis(z, z.ndim - 3, z.ndim - 2)
    z = UOp(Op.GBARRIER, (_times_matrix(z, radix, inverse),))
    b, k = (_count((rest, radix), i) for i in range(2))
    z = _times_roots(z, b * k, n, inverse)
    z = build.moveaxis(z, z.ndim - 3, z.ndim - 2)
    # Each product writes its lines in order, which vectors run along; a copy transposes them.
    z = UOp(Op.GBARRIER, (_lines(UOp(Op.GBARRIER, (z,)), rest, inverse),))
    # Element k + radix * l: of the lines of k, the elements l.
    return build.reshape(build.moveaxis(z, z.ndim - 3, z.ndim - 2), (*batch, n, 2))


def _radix(n: int) -> int:
    """The factor to begin with: of two factors the nearest to a square root; 1 of a large prime."""
    factors = [d for d in range(2, MAX_RADIX + 1) if n % d == 0]
    whole = [d for d in factors if n // d <= MAX_RADIX]
    return min(whole, default=max(factors, default=1))


def _times_matrix(z: UOp, n: int, inverse: bool) -> UOp:
    """Lines times the matrix of the roots, each a square of real numbers::

    (re, im) ((cos, -sin), (sin, cos))
    """
    shape = (n, 2, n, 2)
    row, row_part, column, column_part = (_count(shape, i) for i in range(4))
    # A part of the result takes the other part times a sine: a quarter turn of the cosine.
    quarters = row_part - column_part if inverse else column_part - row_part
    cosine, _ = _roots(row * column, n, quarters, z.dtype)
    return build.dot(z, cosine, ((z.ndim - 2, z.ndim - 1), (0, 1)))


def _times_roots(z: UOp, exponents: UOp, n: int, inverse: bool) -> UOp:
    """Each element times the root of unity of its exponent, along the last axes but the parts."""
    cosine, sine = _roots(exponents, n, const(0, INT64, exponents.shape), z.dtype)
    cosine, sine = (build.broadcast_to(u, z.shape[:-1]) for u in (cosine, sine))
    re, im = _parts(z)
    sine = sine if inverse else -sine
    return _joined(re * cosine - im * sine, re * sine + im * cosine)


def _roots(exponents: UOp, n: int, quarters: UOp, dtype: DType) -> tuple[UOp, UOp]:
    """Cosine and sine of ``2 pi exponents / n + pi / 2 quarters``.

    Only angles up to pi / 4 reach a function: larger ones, rounded, would have larger errors.
    """
    turns = exponents * 4 + quarters * n  # in units of 2 pi / 4n
    whole = (turns * 2 + n) // (2 * n)
    angle = build.cast(turns - whole * n, dtype) * (pi / (2 * n))
    cosine, sine = build.unary(Op.COS, angle), build.unary(Op.SIN, angle)
    quadrant = whole % 4
    is_odd = build.eq(quadrant % 2, build.full_like(quadrant, 1))
    x, y = build.where(is_odd, sine, cosine), build.where(is_odd, cosine, sine)
    negative_x = build.eq(quadrant, build.full_like(quadrant, 1)) | build.eq(
        quadrant, build.full_like(quadrant, 2)
    )
    negative_y = build.full_like(quadrant, 1) < quadrant
    return build.where(negative_x, -x, x), build.where(negative_y, -y, y)


def _count(shape: Shape, axis: int) -> UOp:
    return build.iota(shape, axis, INT64)


def _bluestein(z: UOp, n: int, inverse: bool) -> UOp:
    """Lines of any length: j k = (j**2 + k**2 - (k - j)**2) / 2 makes them a convolution."""
    m = 1 << (2 * n - 2).bit_length()
    batch = z.shape[:-2]
    squares = _count((n,), 0) * _count((n,), 0) % (2 * n)
    turned = _times_roots(z, squares, 2 * n, inverse)
    turned = _widened(turned, 0, m - n)
    # The other factor: the conjugate chirp, at distances of both signs.
    distance = build.minimum(_count((m,), 0), m - _count((m,), 0))
    near = distance < n
    chirp = _roots(distance * distance % (2 * n), 2 * n, const(0, INT64, (m,)), z.dtype)
    sine = -chirp[1] if inverse else chirp[1]
    zero = build.zeros((m,), z.dtype)
    pair = Pair(build.where(near, chirp[0], zero), build.where(near, sine, zero))
    spectrum = _parts(UOp(Op.GBARRIER, (_lines(_joined(*pair), m, False),)))
    re, im = _parts(UOp(Op.GBARRIER, (_lines(UOp(Op.GBARRIER, (turned,)), m, False),)))
    c, s = (build.broadcast_to(u, re.shape) for u in spectrum)
    product = UOp(Op.GBARRIER, (_joined(re * c - im * s, re * s + im * c),))
    whole = _lines(product, m, True) * (1.0 / m)
    whole = build.shrink(whole, (0,) * whole.ndim, (*batch, n, 2))
    return _times_roots(whole, squares, 2 * n, inverse)


def _widened(z: UOp, low: int, high: int) -> UOp:
    """Lines with zeros before and after their elements."""
    zeros: Sequence[int] = (0,) * (z.ndim - 2)
    return build.pad(z, (*zeros, low, 0), (*zeros, high, 0))
