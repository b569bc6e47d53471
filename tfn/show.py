"""`show`: any stage of a function as text, for any target; see `tfn.view` for the stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfn import run
from tfn.frozen import frozen
from tfn.lower.kernel import Target
from tfn.transforms.stage import make_jaxpr
from tfn.view import View


@frozen
class Picture:
    """Text that a Python prompt shows as it is."""

    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


def show(function: Callable[..., Any], *args: Any, at: str = "jaxpr",
         target: Target | None = None, **kwargs: Any) -> Picture:  # fmt: skip
    """A function at one stage of the way to machine code, as text.

    Nothing is run; arrays are read for their shapes only, so `ShapeDtypeStruct` will do.  A prompt
    shows the result as it is, and ``str()`` gives the text.

    Args:
        function: jitted or not.
        args, kwargs: what it would be called with.
        at: a stage: jaxpr, kernels, ranges, splits, linear, llvm, driver, memory or
            assembly.
        target: what code is generated for, the default device's target if None.

    Raises:
        ArgumentError: for a stage that there is not.

    Example:
        >>> import tfn
        >>> rows = tfn.ShapeDtypeStruct((4, 9), "float32")
        >>> tfn.show(lambda x: tfn.numpy.exp(x).sum(axis=1), rows, at="ranges")
        kernel 0: d:f32[4] <- a:f32[4,9]
          for r0 in 4:
            v0:f32 = 0.0
            for r1 in 9:
              v0 += exp(a[r0 * 9 + r1])
            d[r0] = v0
    """
    jaxpr = make_jaxpr(function)(*args, **kwargs)
    return Picture(View(jaxpr, target or run.device().target).text(at))
