"""Viewer entry (`tfn.view`): traces and lowers a function, writes the page, and opens it."""

from __future__ import annotations

import html
import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

from tfn.errors import ArgumentError
from tfn.extend import (
    Jitted,
    KernelTimer,
    Target,
    frozen,
    name_of,
    requested,
    run,
    shown,
    source_lines,
)
from tfn.inspect.limits import limits
from tfn.inspect.show import View
from tfn.inspect.viewer.alternatives import alternatives
from tfn.inspect.viewer.collect import Collected, collect, roofline
from tfn.inspect.viewer.page import page
from tfn.transforms.aot import Compiled, Lowered


@frozen
class Page:
    """A page of the viewer, written to a file.

    Attributes:
        path: of the file.
        versions: the data of its one or two programs.
    """

    path: Path
    versions: tuple[Collected, ...]

    @property
    def html(self) -> str:
        """The text of the page."""
        return self.path.read_text("utf-8")

    def _repr_html_(self) -> str:
        """In a notebook: the page within a frame."""
        text = html.escape(self.html)
        return f'<iframe srcdoc="{text}" style="width:100%;height:80vh;border:0"></iframe>'

    def __str__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"<page {self.path}>"


FUNCTIONS = FunctionType, Jitted, Page, Lowered, Compiled
"""Types of what is compared, and is no argument of a function."""


def view(
    function: Callable[..., Any] | Page | Lowered | Compiled,
    *args: Any,
    target: Target | str | None = None,
    measure: bool = False,
    path: str | Path | None = None,
    show: bool | None = None,
    **kwargs: Any,
) -> Page:
    """Writes a page that shows a function at every stage of its compilation, and why.

    Beside the lines of the function: its jaxpr, the rewrites of each pass with their rules, its
    kernels, why each of them ends where it does, loops, opt-ops with what the model expected of
    them, vectors, LLVM IR, machine code, and the memory of the program.  The page is one file that
    needs no network.  Nothing is run, unless kernels are to be measured; arrays are read for their
    shapes only, so `ShapeDtypeStruct` will do.

    ``view(before, after)`` compares two pages, or two lowered functions.

    Args:
        function: a function of arrays, jitted or not; or a page, or a lowered function.
        args, kwargs: arguments of the function; or the page to compare with.
        target: the machine that code is generated for, a `Target` or the name of one, such as
            x86-64-v3; that of the default device if None.
        measure: whether each kernel is timed on one core, in another process.
        path: of the file; a temporary one if None.
        show: whether to open a browser; if None, where there is a graphical one, and no `path`.

    Raises:
        ArgumentError: if kernels are to be measured on a device that compiles none, or if a page is
            compared with something else.

    Example:
        >>> import tfn
        >>> rows = tfn.ShapeDtypeStruct((64, 100), "float32")
        >>> before = tfn.view(lambda x: tfn.nn.softmax(x), rows, show=False)
        >>> after = tfn.view(lambda x: tfn.numpy.exp(x), rows, show=False)
        >>> both = tfn.view(before, after, show=False)
        >>> len(both.html) < 200_000
        True
    """
    if isinstance(function, (Page, Lowered, Compiled)):
        versions = tuple(version for one in (function, *args) for version in _versions(one))
    elif isinstance(function, FunctionType) and args and isinstance(args[0], FUNCTIONS):
        raise _incomparable(function)  # one that has static arguments is jitted
    else:
        with source_lines.tracking():
            versions = (_collected(function, args, kwargs, target, measure),)
    file = Path(path) if path is not None else _temporary(versions[-1].data["title"])
    file.write_text(page(versions), "utf-8")
    if (show is None and path is None and _has_window()) or show:
        webbrowser.open(file.absolute().as_uri())
    return Page(file, versions)


def _collected(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    target: Target | str | None,
    measure: bool,
) -> Collected:
    device = run.device()
    jitted = function if isinstance(function, Jitted) else Jitted(function)
    machine = requested(target, device.target)
    seen = View(jitted.trace(*args, **kwargs).jaxpr, machine)
    title = name_of(jitted.function)
    # While lines are tracked functions are traced anew, and those traces are not kept.
    ways = alternatives(lambda: jitted.trace(*args, **kwargs).jaxpr, seen.target)
    if not measure:
        return collect(title, seen, None, ways)
    if device.kernel_timer is None or machine != device.target:
        raise ArgumentError(
            "view measures kernels on the cpu, for the machine itself",
            got=f"the device {device.name}" + (f" and {machine.cpu}" if target else ""),
            hint="leave out measure and target, or set TFN_DEVICE to cpu",
        )
    peaks = limits(device)
    timer: KernelTimer
    with device.kernel_timer(device.target) as timer:
        collected = collect(title, seen, timer, ways)
    collected.data["roofline"] = roofline(collected.data, *peaks)
    return collected


def _versions(one: Any) -> tuple[Collected, ...]:
    """The program of a page or of a lowered function, of which lines are not known."""
    if isinstance(one, Page):
        return one.versions[-1:]
    if isinstance(one, (Lowered, Compiled)):
        lowered = one.lowered if isinstance(one, Compiled) else one
        return (collect(lowered.traced.fun_name, lowered.view, None),)
    raise _incomparable(one)


def _incomparable(one: Any) -> ArgumentError:
    return ArgumentError(
        "view compares pages, or lowered functions",
        got=shown(one),
        hint="tfn.view(tfn.view(f, x), tfn.view(g, x))",
    )


def _temporary(title: str) -> Path:
    name = "".join(c for c in title if c.isalnum() or c in "-_") or "function"
    return Path(tempfile.mkdtemp(prefix="tfn-")) / f"{name}.html"


def _has_window() -> bool:
    """Whether the default browser is one with windows, and not one that takes the terminal."""
    try:
        return type(webbrowser.get()) is not webbrowser.GenericBrowser
    except webbrowser.Error:
        return False
