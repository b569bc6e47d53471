"""Exceptions: every class that tfn raises, and the user's line in their messages.

A message has four parts: the problem in the user's words, the value that was got, the user's own
line, and a hint to the solution.  ``assert`` is for bugs of tfn; a mistake of the user raises a
class of this file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import linecache
import sys
from collections.abc import Hashable, Iterator
from pathlib import Path
from types import FrameType, TracebackType

_NOT_THE_USERS = (
    *(str(Path(__file__).parent), "<frozen runpy>"),  # python -m tfn...
    *(str(module.__file__) for module in (contextlib, dataclasses, functools)),
)


Line = tuple[str, int] | None
"""A file and a number of a line in it."""


_OURS: dict[str, bool] = {}

_WRITTEN = "<string>"  # the file of what was written while the program ran: ours, or the user's


def ours(frame: FrameType) -> bool:
    """Whether code is tfn's own, or library code between tfn's and the user's.

    Methods that dataclasses write have no file of their own, but the module of their class.
    """
    filename = frame.f_code.co_filename
    is_ours = _OURS.get(filename)
    if is_ours is None:
        if filename == _WRITTEN:
            return str(frame.f_globals.get("__name__")).startswith("tfn.")
        is_ours = _OURS[filename] = filename.startswith(_NOT_THE_USERS)
    return is_ours


def user_place() -> Line:
    """The innermost line on the stack that is not tfn's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and ours(frame):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


_DEPTHS: dict[Hashable, int] = {}


def place_of(what: Hashable) -> Line:
    """`user_place`, faster if the user's frame is at the same depth as for `what` before."""
    depth = _DEPTHS.get(what, 1)
    try:
        frame = sys._getframe(depth + 1)
        if not ours(frame) and ours(sys._getframe(depth)):
            return frame.f_code.co_filename, frame.f_lineno
    except ValueError:  # the stack is not that deep
        pass
    place, depth = None, 0
    walked: FrameType | None = sys._getframe(1)
    while walked is not None and ours(walked):
        walked, depth = walked.f_back, depth + 1
    if walked is not None:
        place, _DEPTHS[what] = (walked.f_code.co_filename, walked.f_lineno), depth
    return place


def users_frames(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames that are tfn's own."""
    frames = [frame for frame in _frames(traceback) if not ours(frame.tb_frame)]
    above: TracebackType | None = None
    for frame in reversed(frames):
        above = TracebackType(above, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return above


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def hide_frames() -> None:
    """Let Python print errors of users with their own lines alone; done by ``tfn/__init__.py``.

    An error that is our own mistake keeps all frames.  ``sys.excepthook = sys.__excepthook__``
    shows them always.
    """
    hook = sys.excepthook

    def show(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        frames = list(_frames(traceback))
        if isinstance(error, TfnError) or not (frames and ours(frames[-1].tb_frame)):
            traceback = users_frames(traceback)
            error = error.with_traceback(traceback)
        hook(kind, error, traceback)

    sys.excepthook = show


def show_line(place: Line) -> str:
    """A line as messages show it: ``train.py:31  y = x @ w``."""
    if place is None:
        return ""
    path, line = place
    text = linecache.getline(path, line).strip()
    return f"{Path(path).name}:{line}" + (f"  {text}" if text else "")


def user_line() -> str:
    """The innermost line on the stack that is not tfn's own, as ``train.py:31  y = x @ w``."""
    return show_line(user_place())


class TfnError(Exception):
    """The root of tfn's exceptions: `what` broke, what was `got`, `where`, and a `hint`."""

    def __init__(self, what: str, *, got: str = "", hint: str = "", where: str | None = None):
        self.what, self.got, self.hint = what, got, hint
        self.where = user_line() if where is None else where
        more = {"got": got, "at": self.where, "hint": hint}
        parts = (f"  {name}: {text}" for name, text in more.items() if text)
        super().__init__("\n".join([what, *parts]))


class ShapeError(TfnError, TypeError, ValueError):
    """Shapes that do not fit together."""


class DTypeError(TfnError, TypeError, ValueError):
    """An element type that the operation does not accept."""


class ArgumentError(TfnError, TypeError, ValueError):
    """An argument of a public function that it cannot take."""


class NumberError(ArgumentError, OverflowError):
    """A number that an element type does not have: too large, not whole, or complex."""


class AxisError(TfnError, TypeError, ValueError, IndexError):
    """An axis that the array does not have."""


class AxisNameError(AxisError, NameError):
    """A named axis that there is not, or is named twice."""


class ShardingTypeError(TfnError, TypeError, ValueError):
    """Arrays over explicit axes of a mesh, divided in a way from which no result follows."""


class OutOfBoundsError(TfnError, ValueError, IndexError):
    """A static index outside its axis."""


class TreeError(TfnError, ValueError, TypeError):
    """Two nested containers whose structures differ."""


class GradientError(TfnError, TypeError):
    """A derivative that does not exist: of a function not scalar, not floating, not linear."""


class CallbackError(TfnError, RuntimeError):
    """An error in a function of the host, with its traceback, as JAX reports it."""


class MissingRuleError(TfnError, NotImplementedError):
    """A transform of a primitive of the user that has no rule for it."""


class NotAvailableError(TfnError, NotImplementedError):
    """A part of JAX that tfn does not have."""


class ConcretizationTypeError(TfnError, TypeError):
    """A value was needed while tracing, where only shape and dtype are known."""


class TracerBoolConversionError(ConcretizationTypeError):
    """``if``, ``while``, ``and``, ``or`` or ``not`` on a traced value."""


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced value used where Python needs an int, as in ``range(n)``."""


class TracerArrayConversionError(ConcretizationTypeError):
    """A traced value given to NumPy."""


class NonConcreteBooleanIndexError(ConcretizationTypeError, IndexError):
    """A traced boolean mask as an index, whose result would have no static shape."""


class UnexpectedTracerError(TfnError, TypeError):
    """A traced value used after its trace has ended: it leaked out of its function."""


class StaticArgumentError(TfnError, ValueError, TypeError):
    """A static argument of `jit` that cannot be hashed."""


class DeletedArrayError(TfnError, RuntimeError):
    """An array used after it was donated or deleted."""


class CheckError(TfnError, ValueError):
    """A check that failed while a program ran; see `tfn.checkify`."""


class NanError(TfnError, FloatingPointError):
    """A NaN, with the operation that made it; raised if `config.debug_nans` is on."""


class KeyReuseError(TfnError):
    """A random key consumed twice."""


class DeviceError(TfnError, RuntimeError, ValueError):
    """A device that is not available, or cannot do an operation."""


class CompileError(TfnError, RuntimeError):
    """A program that could not be compiled for its target."""


class ExportError(TfnError, RuntimeError):
    """A function that cannot be exported with these options, or a file that cannot be loaded."""


class SplitError(TfnError, ValueError):
    """An opt-op that is not legal on this kernel."""


class OutOfMemoryError(TfnError, MemoryError):
    """A program whose buffers do not fit into the device's memory."""


class MemoryCorruptionError(TfnError, RuntimeError):
    """Memory that was written beside an array, or after it was freed; see `tfn.hw.guards`."""


class DistributedError(TfnError, RuntimeError):
    """A fault of a job of many processes.

    Attributes:
        host: the host that it is about, or where it was found.
        rank: the number of the process.
        step: the step of training that ran, if `tfn.distributed.progress` has told it.
        collective: the exchange that did not end.
        committed: the step of the last checkpoint that is whole, if it was told.
    """

    def __init__(
        self,
        what: str,
        *,
        got: str = "",
        hint: str = "",
        host: str = "",
        rank: int | None = None,
        step: int | None = None,
        collective: str = "",
        committed: int | None = None,
    ):
        self.host, self.rank, self.step = host, rank, step
        self.collective, self.committed = collective, committed
        known = [
            f"host {host}" if host else "",
            f"rank {rank}" if rank is not None else "",
            f"step {step}" if step is not None else "",
            f"in {collective}" if collective else "",
            f"last committed step {committed}" if committed is not None else "",
        ]
        super().__init__(what, got=got or ", ".join(filter(None, known)), hint=hint)


class WorkerLostError(DistributedError):
    """A process of the job has died."""


class CollectiveTimeoutError(DistributedError):
    """A message between processes that has not arrived before its deadline."""


class ProgramMismatchError(DistributedError):
    """Processes that are about to run different programs."""


class SecurityError(DistributedError):
    """A process that may not take part in a job: its token, its address, what it sends."""


class HostSpecificationError(DistributedError, ValueError):
    """A specification of hosts that is not one, or that a cluster does not fulfil."""


class HostError(DistributedError):
    """A process that trains together with others, and was not heard of in time."""


class StateError(TfnError, ValueError):
    """A file of saved arrays that is damaged, or lacks an array."""


class DamagedError(StateError):
    """A file that is not what was written: cut off, altered, or gone."""


class OverloadError(TfnError, RuntimeError):
    """Work that cannot be taken now: too much waits already, or its worker is closed."""


class MissingPackageError(TfnError, ImportError):
    """An optional package that is needed and not installed."""


class ImmutableError(TfnError, TypeError, AttributeError):
    """An attempt to change an array in place: its elements, or an attribute."""
