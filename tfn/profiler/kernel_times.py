"""Kernel times: each kernel of a program timed on one core, beside what the machine could do."""

from __future__ import annotations

import html
import io
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from tfn.errors import ArgumentError
from tfn.extend import Jitted, frozen, run, source_lines
from tfn.inspect import plots
from tfn.inspect.limits import limits
from tfn.inspect.show import View
from tfn.inspect.viewer.collect import collect
from tfn.profiler.units import duration


@frozen
class KernelTime:
    """A kernel of a program, and its time on one core.

    Attributes:
        label, title: number and operations, as in `tfn.view`.
        launches: how often one call of the program runs it.
        ns: of one launch, measured with its operands in the cache where they fit; infinite if it
            could not be timed.
        expected_ns: the same by the compiler's model.
        flops, traffic_bytes: of one launch.
        scope: the named scopes and modules in which most of its work was recorded, as a path.
        peak_flops_per_ns: what one core does with factors of its dtype, measured.
    """

    label: str
    title: str
    launches: int
    ns: float
    expected_ns: float
    flops: float
    traffic_bytes: float
    scope: str
    peak_flops_per_ns: float


@frozen
class ScopeTime:
    """The kernels of a named scope, or of a module, and of all within it.

    Attributes:
        name: the path of the scope.
        launches: of its kernels, in one call of the program.
        ns, flops, traffic_bytes: of all these.
    """

    name: str
    launches: int
    ns: float
    flops: float
    traffic_bytes: float


@frozen
class Report:
    """The kernels of a program; it prints as a table.

    ``of peak`` is of arithmetic.  GB/s may be more than memory has, since operands that fit are in
    the cache.

    Attributes:
        kernels: in running order.
        peak_flops_per_ns, peak_bytes_per_ns: what one core of the machine does with float32,
            measured.
    """

    kernels: tuple[KernelTime, ...]
    peak_flops_per_ns: float
    peak_bytes_per_ns: float

    @property
    def total_ns(self) -> float:
        """All launches of all kernels."""
        return sum(kernel.ns * kernel.launches for kernel in self.kernels)

    def bound(self, kernel: KernelTime) -> str:
        """The limit of a kernel by the roofline model: ``arithmetic`` or ``memory``."""
        ridge = kernel.peak_flops_per_ns / self.peak_bytes_per_ns
        return "arithmetic" if kernel.flops > ridge * kernel.traffic_bytes else "memory"

    def by_scope(self) -> tuple[ScopeTime, ...]:
        """The kernels summed by scope, each scope with those within it, in running order."""
        groups: dict[str, list[KernelTime]] = {}
        for kernel in self.kernels:
            parts = kernel.scope.split("/") if kernel.scope else []
            for depth in range(1, len(parts) + 1):
                groups.setdefault("/".join(parts[:depth]), []).append(kernel)
        return tuple(
            ScopeTime(
                name,
                sum(k.launches for k in group),
                sum(k.ns * k.launches for k in group),
                sum(k.flops * k.launches for k in group),
                sum(k.traffic_bytes * k.launches for k in group),
            )
            for name, group in groups.items()
        )

    def _scopes(self) -> str:
        """The table of scopes; empty if there are none."""
        found = self.by_scope()
        if not found:
            return ""
        table = Table(box=None, pad_edge=False)
        table.add_column("scope", no_wrap=True, overflow="ellipsis", max_width=60)
        for head in ("launches", "total", "share", "GFLOP/s", "GB/s"):
            table.add_column(head, justify="right", no_wrap=True)
        for scope in found:
            ns = max(scope.ns, 1e-9)
            table.add_row(
                scope.name,
                str(scope.launches),
                duration(scope.ns),
                f"{100 * scope.ns / max(self.total_ns, 1):.1f}%",
                f"{scope.flops / ns:.1f}",
                f"{scope.traffic_bytes / ns:.1f}",
            )
        text = io.StringIO()
        Console(width=130, file=text).print(table)
        return text.getvalue()

    def _repr_html_(self) -> str:
        """In a notebook: the roofline plot, and the table."""
        table = html.escape(str(self))
        return f"<div>{self.roofline()}<pre>{table}</pre></div>"

    def roofline(self) -> str:
        """The roofline plot as SVG: each kernel below what one core can do."""
        points = [
            plots.Point(
                f"{kernel.label} {kernel.title}",
                kernel.flops / max(1.0, kernel.traffic_bytes),
                kernel.flops / kernel.ns,
                kernel.ns * kernel.launches / max(self.total_ns, 1),
            )
            for kernel in self.kernels
        ]
        return plots.roofline(points, self.peak_flops_per_ns, self.peak_bytes_per_ns)

    def __str__(self) -> str:
        table = Table(box=None, pad_edge=False)
        for head in ("kernel", "operations"):
            table.add_column(head, no_wrap=True, overflow="ellipsis", max_width=38)
        for head in (
            "launches",
            "total",
            "share",
            "one",
            "expected",
            "GFLOP/s",
            "GB/s",
            "of peak",
            "bound",
        ):
            table.add_column(head, justify="right", no_wrap=True)
        for kernel in sorted(self.kernels, key=lambda k: -k.ns * k.launches):
            total_ns = kernel.ns * kernel.launches
            table.add_row(
                kernel.label,
                kernel.title,
                str(kernel.launches),
                duration(total_ns),
                f"{100 * total_ns / max(self.total_ns, 1):.1f}%",
                duration(kernel.ns),
                duration(kernel.expected_ns),
                f"{kernel.flops / kernel.ns:.1f}",
                f"{kernel.traffic_bytes / kernel.ns:.1f}",
                f"{100 * kernel.flops / kernel.ns / kernel.peak_flops_per_ns:.0f}%",
                self.bound(kernel),
            )
        text = io.StringIO()
        Console(width=130, file=text).print(table)
        peaks = f"{self.peak_flops_per_ns:.0f} GFLOP/s, {self.peak_bytes_per_ns:.1f} GB/s"
        total = duration(self.total_ns)
        tables = text.getvalue() + self._scopes()
        return f"{tables}one core does {peaks} of memory; all kernels: {total}"


def kernels(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Report:
    """Times each kernel of a function on one core, in another process; nothing else is run.

    Args:
        function: a function of arrays, jitted or not.
        args, kwargs: arguments of the function; `ShapeDtypeStruct` will do for an array.

    Raises:
        ArgumentError: on a device that compiles nothing.

    Example:
        >>> import tfn
        >>> report = kernels(lambda x: tfn.numpy.exp(x).sum(), tfn.ShapeDtypeStruct((999,), "f4"))
        >>> len(report.kernels), report.total_ns > 0
        (1, True)
    """
    device = run.device()
    if device.kernel_timer is None:
        raise ArgumentError(
            "the profiler times kernels on the cpu",
            got=f"the device {device.name}",
            hint="set TFN_DEVICE or config.device to cpu",
        )
    jitted = function if isinstance(function, Jitted) else Jitted(function)
    with source_lines.tracking():
        view = View(jitted.trace(*args, **kwargs).jaxpr, device.target)
        with device.kernel_timer(device.target) as timer:
            data = collect("", view, timer, decisions=False).data
    rows = [row for row in data["kernels"] if "body" in row]
    bodies = data["bodies"]
    peaks = {dtype: limits(device, dtype) for dtype in {"float32", *(row["dtype"] for row in rows)}}
    return Report(
        tuple(
            KernelTime(
                row["label"],
                row["title"],
                row["trips"],
                bodies[row["body"]]["measured_ns"] or float("inf"),
                bodies[row["body"]]["ns"],
                row["flops"],
                row["bytes"],
                row["scope"],
                peaks[row["dtype"]][0],
            )
            for row in rows
        ),
        *peaks["float32"],
    )
