"""Window functions: weights of the samples of a segment, by name.

Windows are periodic, as transforms take segments to be: the sample after the last one would be the
first one again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tfn.errors import ArgumentError

Weights = np.ndarray[Any, Any]

# fmt: off
COSINES: dict[str, tuple[float, ...]] = {
    "boxcar": (1.0,),
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}
"""Coefficients of cosines of 0, 1, 2, ... turns across the window, of alternating signs.

Source: F. J. Harris, "On the use of windows for harmonic analysis with the discrete Fourier
transform", 1978; A. H. Nuttall, "Some windows with very good sidelobe behavior", 1981."""
# fmt: on


def window(name: str | tuple[Any, ...], size: int) -> Weights:
    """The weights of a window, by its name, or by a tuple of its name and parameters.

    Raises:
        ArgumentError: for another name, or another number of parameters.

    Example:
        >>> window("bartlett", 4).tolist()
        [0.0, 0.5, 1.0, 0.5]
    """
    kind, *parameters = (name,) if isinstance(name, str) else name
    if size == 1:
        return np.ones(1)
    if kind in COSINES and not parameters:
        turns = [2 * math.pi * i * (np.arange(size) / size + 0.5) for i in range(5)]
        terms = [a * np.cos(turn) for a, turn in zip(COSINES[kind], turns)]
        return np.asarray(sum(terms))
    parameter_names, shape = SHAPES.get(kind, ((), None))
    if shape is None or len(parameter_names) != len(parameters):
        names = [*COSINES, *(str((n, *more)) if more else n for n, (more, _) in SHAPES.items())]
        raise ArgumentError(
            "there is no window of this name and these parameters",
            got=repr(name),
            hint="windows are " + ", ".join(names),
        )
    return shape(np.arange(size) / size, size, *parameters)


def _bartlett(turn: Weights, size: int) -> Weights:
    return 1 - abs(2 * turn - 1)


def _cosine(turn: Weights, size: int) -> Weights:
    return np.sin(math.pi * (turn * size + 0.5) / (size + 1))


def _gaussian(turn: Weights, size: int, deviation: float) -> Weights:
    return np.exp(-(((turn - 0.5) * size / deviation) ** 2) / 2)


def _kaiser(turn: Weights, size: int, beta: float) -> Weights:
    return np.i0(beta * np.sqrt(1 - (2 * turn - 1) ** 2)) / np.i0(beta)


def _tukey(turn: Weights, size: int, slope: float) -> Weights:
    """The Tukey window: a cosine slope at both ends, and 1 between."""
    edge = np.minimum(turn, 1 - turn) * 2
    return 0.5 - 0.5 * np.cos(math.pi * np.where(edge < slope, edge / (slope or 1), 1))


SHAPES: dict[str, tuple[tuple[str, ...], Callable[..., Weights]]] = {
    "bartlett": ((), _bartlett),
    "cosine": ((), _cosine),
    "gaussian": (("deviation",), _gaussian),
    "kaiser": (("beta",), _kaiser),
    "tukey": (("slope",), _tukey),
}
"""Other windows, with the names of their parameters."""
