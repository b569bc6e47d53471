"""Spectra of overlapping segments: short-time Fourier transforms, their inverse, powers."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfn import lax
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError, AxisError
from tfn.extend import frozen, integer, one_of, operands, rank, unfit
from tfn.scipy.signal.trends import detrend as without_trend
from tfn.scipy.signal.windows import window as named

if TYPE_CHECKING:
    from jaxtyping import Complex, Float, Inexact, Num

Window = str | tuple[Any, ...] | ArrayLike
Trend = bool | str | Callable[[Array], Array]

EXTENDED = {"zeros": "constant", "even": "reflect", "odd": "reflect", "constant": "edge"}
"""The boundaries of signals, and the modes of `tfn.numpy.pad` that make them."""


@frozen
class Cut:
    """The division of a signal into segments, and the kind of their transforms.

    Attributes:
        window: weights of the samples of a segment.
        step: samples from one segment to the next one.
        length: samples of a segment after zeros are added.
        onesided: whether the negative frequencies are left out.
    """

    window: Array
    step: int
    length: int
    onesided: bool

    @property
    def size(self) -> int:
        """The number of samples of a segment."""
        return self.window.shape[0]


def stft(
    x: Num[ArrayLike, "*sizes"],
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Float[Array, " places"], Float[Array, " segments"], Complex[Array, "*found"]]:
    """The Fourier transforms of overlapping segments of a signal.

    Args:
        x: signal, real or complex, along one axis.
        fs: samples in a unit of time, a number; 1 by default.
        window: the weights of the samples of a segment: a name such as "hann", a tuple of a name
            and parameters (see `tfn.scipy.signal.windows`), or an array.
        nperseg: samples of a segment, at most all of them; None takes all, or the size of a window
            that is an array.
        noverlap: samples that a segment shares with the next one; None takes half of them.
        nfft: length to which segments are filled with zeros; None takes `nperseg`.
        detrend: what is taken out of each segment: "constant", "linear", nothing if False, or a
            function of segments with their samples along the last axis.
        return_onesided: whether to leave out the negative frequencies, unless x is complex.
        boundary: how the signal goes on for half a segment at both ends: "zeros", "even", "odd",
            "constant", or None, not at all.
        padded: whether zeros are added at the end until segments take in all samples.
        axis: axis of the samples, counted from the end if negative; the last by default.

    Returns:
        The frequencies, the times in the middle of the segments, and the transforms: `axis` is
        that of frequencies, and a last one is that of the segments.

    Raises:
        ArgumentError: for sizes that do not fit together, another window, trend or boundary.
        ShapeError: for a signal without samples, or a window that is no vector.
        AxisError: if the signal has no such axis.

    Source: F. J. Harris, "On the use of windows for harmonic analysis with the discrete Fourier
    transform", 1978.

    Example:
        >>> import tfn.numpy as tnp
        >>> frequencies, times, transforms = stft(tnp.ones(8), nperseg=4)
        >>> frequencies.tolist(), times.tolist(), transforms.shape
        ([0.0, 0.25, 0.5], [0.0, 2.0, 4.0, 6.0, 8.0], (3, 5))
    """
    (samples,), at = _signals("stft", axis, x)
    cut = _cut("stft", samples, window, nperseg, noverlap, nfft, return_onesided)
    if boundary is not None:
        samples = _extended(samples, cut.size // 2, boundary)
    if padded:
        samples = _longer(samples, -(samples.shape[-1] - cut.size) % cut.step)
    transforms = _transforms(samples, cut, detrend) / cut.window.sum()
    places = jnp.arange(transforms.shape[-2], dtype=transforms.real.dtype) * cut.step
    times = (places if boundary is not None else places + cut.size / 2) / fs
    return _frequencies(cut, fs), times, jnp.moveaxis(transforms, -1, at)


def istft(
    Zxx: Num[ArrayLike, "*sizes"],
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Float[Array, " places"], Inexact[Array, "*found"]]:
    """The signal whose `stft` comes closest to the given transforms.

    Args:
        Zxx: transforms of segments, as `stft` returns them.
        fs: samples in a unit of time, a number; 1 by default.
        window: weights of the samples of a segment, those of `stft`.
        nperseg: samples of a segment; None takes as many as there are frequencies for.
        noverlap: samples that a segment shares with the next one; None takes half of them.
        nfft: length of the transforms; None takes as many as there are frequencies for.
        input_onesided: whether the negative frequencies are missing; the signal is real then.
        boundary: whether the signal was extended by half a segment, which is cut off.
        time_axis: axis of the segments, counted from the end if negative; the last by default.
        freq_axis: axis of the frequencies, counted from the end if negative; the last but one by
            default.

    Returns:
        The times of the samples, and the signal, its samples along the axis of the segments.

    Raises:
        ArgumentError: as `stft`.
        ShapeError: as `stft`.
        AxisError: if the array has no such axes, or they are the same.

    Source: D. W. Griffin and J. S. Lim, "Signal estimation from modified short-time Fourier
    transform", 1984.

    Example:
        >>> import tfn.numpy as tnp
        >>> _, _, transforms = stft(tnp.arange(8.0), nperseg=4)
        >>> istft(transforms)[1].round(3).tolist()
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """
    z = operands.array_of("istft", Zxx)
    from_axes = [operands.one_axis("istft", axis, z.ndim) for axis in (freq_axis, time_axis)]
    if len(set(from_axes)) != 2:
        raise AxisError(
            "istft needs two axes, of frequencies and of segments",
            got=f"freq_axis={freq_axis}, time_axis={time_axis}",
            hint="name two different ones",
        )
    z = jnp.moveaxis(z, from_axes, (-1, -2))
    frequencies = z.shape[-1]
    whole = 2 * (frequencies - 1) if input_onesided else frequencies
    size = whole if nperseg is None else integer("istft", "nperseg", nperseg, 1)
    if nfft is None:
        nfft = whole + (input_onesided and size == whole + 1)  # an odd size has no middle frequency
    z = z.astype(jnp.result_type(z.dtype, "complex64"))
    kind = z.real.dtype if input_onesided else z.dtype
    example = jnp.zeros(max(size, 0), kind)
    cut = _cut("istft", example, window, size, noverlap, nfft, input_onesided)
    inverse = jnp.fft.irfft if cut.onesided else jnp.fft.ifft
    segments = inverse(z, cut.length)[..., :size] * cut.window.sum()
    signal = _added(segments * cut.window, cut.step)
    weight = _added(jnp.broadcast_to(cut.window**2, segments.shape[-2:]), cut.step)
    signal = signal / jnp.where(abs(weight) > 1e-10, weight, 1)
    if boundary:
        signal = signal[..., size // 2 : signal.shape[-1] - size // 2]
    times = jnp.arange(signal.shape[-1], dtype=signal.real.dtype) / fs
    at = from_axes[1] - (from_axes[0] < from_axes[1])
    return times, jnp.moveaxis(signal, -1, at)


def csd(
    x: Num[ArrayLike, "*sizes"],
    y: Num[ArrayLike, "*others"] | None,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Float[Array, " places"], Inexact[Array, "*found"]]:
    """The power that two signals share at each frequency, by the method of Welch.

    The mean over segments of products of their transforms, of which the first is conjugated.

    Args:
        x: first signal, real or complex, along one axis.
        y: second signal, of which the shorter one is filled with zeros; None takes `x`, and then
            the result is real.
        fs: samples in a unit of time, a number; 1 by default.
        window: weights of the samples of a segment, as for `stft`.
        nperseg: samples of a segment; None takes all, or the size of a window that is an array.
        noverlap: samples that a segment shares with the next one; None takes half of them.
        nfft: length to which segments are filled with zeros; None takes `nperseg`.
        detrend: trend taken out of each segment, as for `stft`; the mean by default.
        return_onesided: whether to leave out the negative frequencies, unless `x` is complex.
        scaling: "density", by the unit of frequency, or "spectrum".
        axis: axis of the samples, counted from the end if negative; the last by default.
        average: "mean", or "median", corrected to be a mean where all is noise.

    Returns:
        The frequencies, in cycles for a unit of time, and the powers, along `axis`.

    Raises:
        ArgumentError: as `stft`, and for another scaling or average.
        ShapeError: as `stft`.
        AxisError: as `stft`.

    Source: P. D. Welch, "The use of fast Fourier transform for the estimation of power spectra",
    1967; B. Allen and others, "FINDCHIRP", 2012, appendix B, for the median.

    Example:
        >>> import tfn.numpy as tnp
        >>> x = tnp.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
        >>> frequencies, powers = csd(x, -x, nperseg=4, scaling="spectrum", window="boxcar")
        >>> frequencies.tolist(), powers.real.round(3).tolist()
        ([0.0, 0.25, 0.5], [0.0, 0.0, -1.0])
    """
    signals, at = _signals("csd", axis, *([x] if y is None else [x, y]))
    longest = max(samples.shape[-1] for samples in signals)
    signals = [_longer(samples, longest - samples.shape[-1]) for samples in signals]
    cut = _cut("csd", signals[0], window, nperseg, noverlap, nfft, return_onesided)
    one_of("csd", "scaling", scaling, ("density", "spectrum"))
    one_of("csd", "average", average, ("mean", "median"))
    transforms = [_transforms(samples, cut, detrend) for samples in signals]
    powers = jnp.conj(transforms[0]) * transforms[-1]
    powers = powers.real if y is None else powers
    places = _frequencies(cut, fs)
    if cut.onesided:  # each counts for a negative one, too, but the first and the middle
        alone = (jnp.arange(len(places)) * 2) % cut.length == 0
        powers = powers * jnp.where(alone, 1, 2)
    whole, squares = abs(cut.window.sum()) ** 2, (abs(cut.window) ** 2).sum()
    unit = fs * squares if scaling == "density" else whole
    powers = (powers.mean(-2) if average == "mean" else _median(powers)) / unit
    return places, jnp.moveaxis(powers, -1, at)


def welch(
    x: Num[ArrayLike, "*sizes"],
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Float[Array, " places"], Float[Array, "*found"]]:
    """The power of a signal at each frequency: `csd` of it and itself.

    Args:
        x: signal, real or complex, along one axis.
        fs: samples in a unit of time, a number; 1 by default.
        window: weights of the samples of a segment, as for `stft`.
        nperseg: samples of a segment; None takes all, or the size of a window that is an array.
        noverlap: samples that a segment shares with the next one; None takes half of them.
        nfft: length to which segments are filled with zeros; None takes `nperseg`.
        detrend: trend taken out of each segment, as for `stft`; the mean by default.
        return_onesided: whether to leave out the negative frequencies, unless `x` is complex.
        scaling: "density", power in a unit of frequency, or "spectrum", power.
        axis: axis of the samples, counted from the end if negative; the last by default.
        average: "mean" over the segments, or "median", corrected to be the mean of noise.

    Returns:
        The frequencies, in cycles for a unit of time, and the real powers, along `axis`.

    Raises:
        ArgumentError: as `csd`.
        ShapeError: as `csd`.
        AxisError: as `csd`.

    Example:
        >>> import tfn.numpy as tnp
        >>> x = tnp.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
        >>> welch(x, nperseg=4, scaling="spectrum", window="boxcar")[1].round(3).tolist()
        [0.0, 0.0, 1.0]
    """
    return csd(
        x,
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        scaling,
        axis,
        average,
    )


def _signals(name: str, axis: int, *given: ArrayLike) -> tuple[list[Array], int]:
    """Signals in one inexact dtype, their samples along the last axis, and the original axis."""
    signals, dtype, _ = operands.together(name, *given, floating=True)
    ndim, at = signals[0].ndim, operands.one_axis(name, axis, signals[0].ndim)
    if not all(x.ndim == ndim and x.size for x in signals):
        raise unfit(
            f"{name} needs signals of as many axes, and with samples",
            signals,
            "x[None] adds an axis",
        )
    dtype = jnp.result_type(dtype, "float32")  # transforms have 32 bits at least
    signals = [jnp.moveaxis(x.astype(dtype), at, -1) for x in signals]
    operands.broadcast_shape(name, *(x.shape[:-1] for x in signals))
    return signals, at


def _cut(
    name: str,
    samples: Array,
    window: Window,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    onesided: bool,
) -> Cut:
    count = samples.shape[-1]
    if isinstance(window, (str, tuple)):
        size = count if nperseg is None else min(integer(name, "nperseg", nperseg, 1), count)
        weights = jnp.asarray(named(window, max(size, 1))).astype(samples.real.dtype)
    else:
        weights = operands.array_of(name, window)
        weights = weights.astype(samples.dtype if weights.dtype.kind == "c" else samples.real.dtype)
        rank(name, weights, 1, 1, "as window")
        size = weights.size if nperseg is None else integer(name, "nperseg", nperseg, 1)
    overlap = size // 2 if noverlap is None else integer(name, "noverlap", noverlap, 0)
    length = size if nfft is None else integer(name, "nfft", nfft, 1)
    if not 0 <= overlap < size == weights.size <= min(count, length):
        raise ArgumentError(
            f"{name} needs segments no longer than the signal and the transform, which share less "
            "than all",
            got=f"{count} samples, nperseg {size}, noverlap {overlap}, nfft {length}, "
            f"a window of {weights.size}",
            hint="take noverlap < nperseg <= nfft, and a window of nperseg",
        )
    real = samples.dtype.kind != "c"
    return Cut(weights, size - overlap, length, bool(onesided) and real)


def _longer(samples: Array, more: int) -> Array:
    """A signal with a number of zeros added at its end."""
    return jnp.pad(samples, [(0, 0)] * (samples.ndim - 1) + [(0, more)]) if more else samples


def _extended(samples: Array, more: int, boundary: str) -> Array:
    if boundary not in EXTENDED:
        raise ArgumentError(
            "stft knows no such boundary",
            got=f"boundary={boundary!r}",
            hint=f"boundaries are {', '.join(EXTENDED)} and None",
        )
    if EXTENDED[boundary] == "reflect" and more >= samples.shape[-1]:
        raise ArgumentError(
            f"stft needs more samples for boundary {boundary!r}",
            got=f"{samples.shape[-1]} samples, to be extended by {more}",
            hint="boundary='zeros' needs none",
        )
    widths = [(0, 0)] * (samples.ndim - 1) + [(more, more)]
    extension = jnp.pad(samples, widths, EXTENDED[boundary])
    return 2 * jnp.pad(samples, widths, "edge") - extension if boundary == "odd" else extension


def _transforms(samples: Array, cut: Cut, trend: Trend) -> Array:
    """The transforms of all segments, frequencies along the last axis."""
    count = (samples.shape[-1] - cut.size) // cut.step + 1
    places = jnp.arange(count)[:, None] * cut.step + jnp.arange(cut.size)
    segments = samples.at[..., places].get(mode="promise_in_bounds")
    if isinstance(trend, str):
        segments = without_trend(segments, type=trend)
    elif callable(trend):
        segments = trend(segments)
    elif trend:
        raise ArgumentError(
            "a trend is 'constant', 'linear', False or a function",
            got=f"detrend={trend}",
            hint="False leaves segments as they are",
        )
    segments = segments * cut.window
    transform = jnp.fft.rfft if cut.onesided else jnp.fft.fft
    return transform(segments, cut.length)


def _frequencies(cut: Cut, fs: ArrayLike) -> Array:
    places = jnp.fft.rfftfreq if cut.onesided else jnp.fft.fftfreq
    return places(cut.length, dtype=cut.window.real.dtype) * fs


def _median(powers: Array) -> Array:
    """The median over segments, divided by its bias: its expectation for noise of power 1."""
    count = powers.shape[-2]
    bias = 1 + sum(1 / (i + 1) - 1 / i for i in range(2, count, 2))
    if powers.dtype.kind != "c":
        return jnp.median(powers, -2) / bias
    return lax.complex(jnp.median(powers.real, -2), jnp.median(powers.imag, -2)) / bias


def _added(segments: Array, step: int) -> Array:
    """The overlap-add of segments, each a step further than the one before.

    Row i of a matrix has piece i, as long as a step, of all segments, then zeros.  Reshaped to
    rows that are shorter by one piece, row i is shifted by i pieces; the sum of rows is the result.
    """
    *batch, count, size = segments.shape
    pieces = -(-size // step)
    whole = _longer(segments, pieces * step - size).reshape(*batch, count, pieces, step)
    rows = jnp.swapaxes(whole, -3, -2).reshape(*batch, pieces, count * step)
    flat = _longer(rows, pieces * step).reshape(*batch, pieces * (count + pieces) * step)
    length = (count + pieces - 1) * step
    shifted = flat[..., : pieces * length].reshape(*batch, pieces, length)
    return shifted.sum(-2)[..., : (count - 1) * step + size]
