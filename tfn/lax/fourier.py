"""The discrete Fourier transform."""

from __future__ import annotations

from collections.abc import Sequence

from tfn._support.validate import integers
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError
from tfn.lax.operand import array
from tfn.trace.argument import Fft
from tfn.trace.argument import FftType as FftType
from tfn.trace.bind import bind
from tfn.trace.op import Op


def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """Returns the discrete Fourier transform over the last axes, whose sizes are `fft_lengths`.

    Args:
        x: array with at least as many axes as there are lengths; complex, or real for RFFT.
        fft_type: FFT, IFFT (divided by the number of elements), RFFT of real values, which leaves
            out the second half of the last axis, or IRFFT, back to real values.
        fft_lengths: sizes of the transformed axes; for RFFT and IRFFT those of the real array.

    Returns:
        An array whose last axis has ``n // 2 + 1`` elements after RFFT, n after the others;
        complex, but real after IRFFT.

    Raises:
        DTypeError: unless x is complex, or real for RFFT.
        ShapeError: if the lengths are not the sizes of the axes.
        ArgumentError: for another kind of transform.

    Example:
        >>> import tfn.numpy as tnp
        >>> fft(tnp.ones(4, complex), FftType.FFT, (4,)).real.tolist()
        [4.0, 0.0, 0.0, 0.0]
    """
    try:
        kind = fft_type if isinstance(fft_type, FftType) else FftType[str(fft_type).upper()]
    except KeyError:
        raise ArgumentError(
            f"there is no Fourier transform {fft_type!r}",
            got=f"fft_type={fft_type!r}",
            hint="there are FFT, IFFT, RFFT, IRFFT",
        ) from None
    lengths = integers("fft", "fft_lengths", fft_lengths, 1)
    out: Array = bind(Op.FFT, array(x), arg=Fft(kind, lengths))
    return out
