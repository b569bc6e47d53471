"""Fourier transforms as products with matrices of roots of unity, in mixed radix, or by Bluestein.

    fft x: c64[B, 1024]   ->   x as f32[B, 32, 2, 32]
                               products with f32[2, 32, 2, 32], times roots, and again

A line of n = n1 n2 elements is n2 lines of n1, roots of unity for each element, and n1 lines of n2
(Cooley and Tukey).  A line of at most `MAX_RADIX` is one contraction, in which a complex number is
a column of two real ones; a longer one is two contractions of half its length, of sums and of
differences.  A large prime length is a convolution, by transforms of a power of two (Bluestein).
The matrices depend on no argument: `constants` has them computed once.

Source: J. W. Cooley, J. W. Tukey 1965, "An algorithm for the machine calculation of complex Fourier
series"; L. I. Bluestein 1970, "A linear filtering approach to the computation of the discrete
Fourier transform".
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from enum import Enum
from math import pi, prod

from tfn.dtypes import INT32, INT64, DType
from tfn.lower.math.complex_functions import Pair
from tfn.trace import build
from tfn.trace.argument import Fft, FftType
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp

MAX_RADIX = 32
"""The longest line that is one product with a matrix of 2 n squared, and the largest radix.

64 real terms, which registers hold in blocks.  Longer ones are folded, which halves both sides.
"""

MAX_FOLDED = 128
"""The longest line that is folded whatever its factors are.

64 lines of 100 took 28 us folded, 43 by two radices; of 256, 127 us folded, 79 by two radices.
"""

MAX_FOLDED_PRIME = 512
"""The longest line of a prime length that is folded: Bluestein's transforms of 1,024 cost as much.

4 lines of 509 took 39 us folded, 75 by Bluestein; one of 1,009 took 53 and 44.
"""

MAX_TERMS = 1 << 18
"""Terms of all sums, below which products are faster than a library of the host.

Its call takes 8 us, and then fewer operations.  Of 4 by 512 (98,000 terms): 12 us, pocketfft 15; of
16 by 256 (131,000) 20 and 18, of 4 by 1,024 (262,000) 28 and 21.
"""

MAX_TERMS_OF_PRIMES = 1 << 21
"""The same for lengths with a prime factor above `MAX_RADIX`, for which libraries have no radix.

Of 4 by 1,912 (1,900,000 terms, 1,912 is 8 times 239): 68 us, pocketfft 120; of 8 by 509 (2,100,000)
58 and 53.
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
        return self is Products.ALL or (self is Products.FAST and _is_fast(arg, shape))


def _is_fast(arg: Fft, shape: Shape) -> bool:
    """Whether products are faster than the library, to which real numbers are half the work."""
    stages = [stage for n in arg.lengths for stage in _stages(n)]
    if max(stages, default=1) > MAX_FOLDED_PRIME:
        return False
    elements = prod(shape[: len(shape) - len(arg.lengths)]) * prod(arg.lengths)
    terms = elements * sum(stages)
    if any(n > MAX_RADIX and _radix(n) == 1 for n in stages):
        return terms < MAX_TERMS_OF_PRIMES
    return terms < (MAX_TERMS // 2 if arg.kind in (FftType.RFFT, FftType.IRFFT) else MAX_TERMS)


def _stages(n: int) -> list[int]:
    """The lengths of the products of a line; the last, if it is a large prime, has none."""
    stages = []
    while n > MAX_FOLDED and (radix := _radix(n)) > 1:
        stages.append(radix)
        n //= radix
    return [*stages, n]


def transform(arg: Fft, x: Pair | UOp) -> Pair | UOp:
    """The transform over the last axes of a value."""
    kind, lengths = arg.kind, arg.lengths
    planes = tuple(x) if isinstance(x, Pair) else (x,)
    rank = planes[0].ndim
    order = [*enumerate(lengths, rank - len(lengths))]
    # Only one half of the last axis takes part in the transforms along others.
    if kind is FftType.RFFT:
        order = order[::-1]
    for axis, n in order:
        planes = tuple([build.moveaxis(u, axis, rank - 1) for u in planes])
        if kind is FftType.IRFFT and axis == rank - 1:
            planes = _mirrored(Pair(*planes), n)
        planes = _parts(_lines(_stored(_stacked(planes)), n, kind in INVERSE))
        if kind is FftType.RFFT and axis == rank - 1:
            planes = tuple([_cut(u, rank - 1, n // 2 + 1)[0] for u in planes])
        planes = tuple([build.moveaxis(u, rank - 1, axis) for u in planes])
    if kind in INVERSE:
        planes = tuple([u * (1.0 / prod(lengths)) for u in planes])
    return planes[0] if kind is FftType.IRFFT else Pair(*planes)


def _mirrored(half: Pair, n: int) -> Pair:
    """Lines of n whose second half is the conjugate of the first, from the first half.

    The imaginary parts of the first element and of the middle one do not count.
    """
    last, rest, tail = half.re.ndim - 1, half.re.shape[:-1], (n - 1) // 2
    low = (*(0,) * last, 1)
    mirrored = [
        build.flip(build.shrink(u, low, (*rest, 1 + tail)), (last,)) for u in (half.re, -half.im)
    ]
    at = _count(half.im.shape, last, n)
    inside = (build.full_like(at, 0) < at) & (at * 2 < n)
    im = build.where(inside, half.im, build.zeros(half.im.shape, half.im.dtype))
    parts = zip((half.re, im), mirrored, strict=True)
    return Pair(*(build.concat(lines, last) for lines in parts))


# Lines are the last axis, and their real and imaginary parts planes, the last axis but one: vectors
# then run along lines.  Lines of real numbers may have one plane.


def _stacked(planes: Sequence[UOp]) -> UOp:
    """Planes along a new axis, the last but one."""
    rows = [build.reshape(u, (*u.shape[:-1], 1, u.shape[-1])) for u in planes]
    return build.concat(rows, planes[0].ndim - 1)


def _parts(z: UOp) -> Pair:
    """Both planes; zeros are the imaginary one of real numbers."""
    shape = (*z.shape[:-2], z.shape[-1])
    planes = [build.reshape(u, shape) for u in _cut(z, z.ndim - 2, *range(1, z.shape[-2]))]
    return Pair(*planes, *[build.zeros(shape, z.dtype)] * (2 - len(planes)))


def _cut(u: UOp, axis: int, *points: int) -> list[UOp]:
    """The parts of an axis between points."""
    before, after = (0,) * axis, (0,) * (u.ndim - axis - 1)
    rows, columns = u.shape[:axis], u.shape[axis + 1 :]
    return [
        build.shrink(u, (*before, low, *after), (*rows, high, *columns))
        for low, high in itertools.pairwise((0, *points, u.shape[axis]))
    ]


def _stored(u: UOp) -> UOp:
    """A value that is in memory."""
    return UOp(Op.GBARRIER, (u,))


def _lines(z: UOp, n: int, inverse: bool) -> UOp:
    """The transforms of lines of n, without a factor."""
    if n == 1:
        return _stacked(_parts(z))
    radix, *others = _stages(n)
    if not others:
        if n > MAX_FOLDED_PRIME:
            return _bluestein(z, n, inverse)
        return (_times_matrix if n <= MAX_RADIX else _folded)(z, n, inverse)
    rest = n // radix
    # Element rest * a + b: lines over a, for each b.
    z = build.reshape(z, (*z.shape[:-1], radix, rest))
    z = build.moveaxis(z, z.ndim - 1, z.ndim - 3)
    z = _stored(_times_matrix(z, radix, inverse))
    k, b = (_count((radix, rest), i, n) for i in range(2))
    re, im = (build.moveaxis(u, u.ndim - 1, u.ndim - 2) for u in _parts(z))
    # Each product writes its lines in order, which vectors run along; a copy transposes them.
    z = _stored(_stacked(_times_roots(Pair(re, im), k * b, n, inverse)))
    z = _stored(_lines(z, rest, inverse))
    # Element k + radix * l: of the lines of k, the elements l.
    z = build.moveaxis(z, z.ndim - 3, z.ndim - 1)
    return build.reshape(z, (*z.shape[:-2], n))


def _radix(n: int) -> int:
    """The factor to begin with, 1 of a large prime: of two factors, those of the least sum."""
    factors = [d for d in range(2, MAX_RADIX + 1) if n % d == 0]
    whole = [d for d in factors if n // d <= MAX_FOLDED]
    return min(whole, key=lambda d: d + n // d, default=max(factors, default=1))


def _times_matrix(z: UOp, n: int, inverse: bool) -> UOp:
    """Lines times the matrix of the roots, each a square of real numbers::

    (re, im) ((cos, -sin), (sin, cos))
    """
    shape = (z.shape[-2], n, 2, n)
    row_part, row, column_part, column = (_count(shape, i, n * n) for i in range(4))
    # A part of the result takes the other part times a sine: a quarter turn of the cosine.
    quarters = row_part - column_part if inverse else column_part - row_part
    cosine, _ = _roots(row * column, n, quarters, z.dtype)
    return build.dot(z, cosine, ((z.ndim - 2, z.ndim - 1), (0, 1)))


def _times_roots(z: Pair, exponents: UOp, n: int, inverse: bool) -> Pair:
    """Each element times the root of unity of its exponent, along the last axes."""
    re, im = z
    cosine, sine = _roots(exponents, n, build.full_like(exponents, 0), re.dtype)
    # Negated before it is repeated, the sine is a table of its own size.
    pair = cosine, sine if inverse else -sine
    cosine, sine = (build.broadcast_to(u, re.shape) for u in pair)
    return Pair(re * cosine - im * sine, re * sine + im * cosine)


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


def _count(shape: Shape, axis: int, most: int) -> UOp:
    """The numbers along an axis, whose products are up to `most`: of 32 bits if angles then fit.

    Some machines have no others.
    """
    return build.iota(shape, axis, INT32 if most < 1 << 27 else INT64)


def _folded(z: UOp, n: int, inverse: bool) -> UOp:
    """Lines as products, of the sums and the differences of the elements k and n - k.

    A cosine is even in k and a sine odd, so that two matrices of n / 2 squared take the place of
    one of 2 n squared::

        s_k = z_k + z_(n-k)   C_j = z_0 + sum_k s_k cos(2 pi j k / n)   Z_j     = C_j - i D_j
        d_k = z_k - z_(n-k)   D_j =       sum_k d_k sin(2 pi j k / n)   Z_(n-j) = C_j + i D_j

    The middle element of an even length is a sum of its own.
    """
    column, pairs = z.ndim - 1, (n - 1) // 2
    first, near, *middle, far = _cut(z, column, 1, pairs + 1, *[n - pairs] * (1 - n % 2))
    far = build.flip(far, (column,))
    sums, differences = build.concat([first, near + far, *middle], column), near - far
    cosines, sines = (
        build.dot(_stored(u), _waves(n, i, u)[i], ((column,), (0,)))
        for i, u in enumerate((sums, differences))
    )
    even, (re, im) = _stacked(_parts(cosines)), _parts(sines)
    odd = _stacked([-im, re] if inverse else [im, -re])
    first, near, *middle = _cut(even, column, 1, *[pairs + 1] * (1 - n % 2))
    whole = [first, near + odd, *middle, build.flip(near - odd, (column,))]
    return build.concat(whole, column)


def _waves(n: int, first: int, u: UOp) -> tuple[UOp, UOp]:
    """Cosines and sines of ``2 pi j k / n``, as many as the last axis has, from `first` on."""
    shape = (u.shape[-1],) * 2
    j, k = (_count(shape, axis, n * n) + first for axis in range(2))
    return _roots(j * k, n, build.full_like(j, 0), u.dtype)


def _bluestein(z: UOp, n: int, inverse: bool) -> UOp:
    """Lines of any length: j k = (j**2 + k**2 - (k - j)**2) / 2 makes them a convolution."""
    m = 1 << (2 * n - 2).bit_length()
    most = m * m // 16  # of squares, which are cut off before they become angles
    count = _count((n,), 0, most)
    squares = count * count % (2 * n)
    turned = _stacked(_times_roots(_parts(z), squares, 2 * n, inverse))
    zeros = (0,) * (turned.ndim - 1)
    turned = build.pad(turned, (*zeros, 0), (*zeros, m - n))
    # The other factor: the conjugate chirp, at distances of both signs.
    count = _count((m,), 0, most)
    distance = build.minimum(count, m - count)
    near = distance < n
    chirp = _roots(distance * distance % (2 * n), 2 * n, build.full_like(distance, 0), z.dtype)
    sine = -chirp[1] if inverse else chirp[1]
    zero = build.zeros((m,), z.dtype)
    planes = _stacked([build.where(near, u, zero) for u in (chirp[0], sine)])
    spectrum = _parts(_stored(_lines(planes, m, False)))
    re, im = _parts(_stored(_lines(_stored(turned), m, False)))
    c, s = (build.broadcast_to(u, re.shape) for u in spectrum)
    product = _stored(_stacked([re * c - im * s, re * s + im * c]))
    whole = _cut(_lines(product, m, True) * (1.0 / m), turned.ndim - 1, n)[0]
    return _stacked(_times_roots(_parts(whole), squares, 2 * n, inverse))
