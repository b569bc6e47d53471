"""Checkpoints of a training run, each of which continues the run as if it had never stopped.

What has to be in one is whatever a step reads and writes: parameters, the state of the optimizer,
random keys, the position in the data.  They are one tree, so they are one checkpoint, and a
checkpoint is whole or not there:

    every host   writes its pieces under another name, syncs, renames, reads them back
    all          meet
    host 0       writes the manifest in the same way, then deletes what is too old
"""

from __future__ import annotations

import errno
import fcntl
import operator
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from tfn.errors import ArgumentError, DamagedError, HostError, StateError
from tfn.extend import PathLike, integer, platforms
from tfn.nn import safetensors, state
from tfn.nn.checkpoint import manifest as manifests
from tfn.nn.checkpoint.pieces import Held, hold
from tfn.nn.checkpoint.restore import load, restored, verify
from tfn.nn.checkpoint.steps import Steps
from tfn.nn.checkpoint.stored import AGE_SECONDS, opened, steps_of
from tfn.nn.checkpoint.writer import Writer
from tfn.nn.hosts import Decide, Hosts, agree
from tfn.nn.store import Store

T = TypeVar("T")
MEETING = ".meeting"  # where hosts agree


@dataclass(frozen=True)
class Checkpoints:
    """A folder of checkpoints, of which the newest are kept.

    Attributes:
        folder: created when it is first written to; no two runs may share it.  All hosts of a run
            see the same folder.
        keep: number of checkpoints to keep, at least 1.
        asynchronous: whether `save` returns while a thread writes.  Arrays are held, not copied:
            until they are on the disk, memory has them, and what the next steps make, once each.
        hosts: the processes that save together; those that tfn knows if None.
        timeout_s: seconds in which hosts wait for each other.
        keep_every: steps that this divides are kept, however many there are; none if None.
        store: a `tfn.nn.store.Store`, or its folder, in which arrays that have not changed since
            another step, or are those of another run, are not written again; `folder` is then the
            name of the run in it.  None for files of their own.

    Example:
        >>> import tempfile
        >>> checkpoints = Checkpoints(tempfile.mkdtemp(), keep=2)
        >>> checkpoints.resume({"w": 0.0})
        (0, {'w': 0.0})
        >>> for step in (10, 20, 30):
        ...     checkpoints.save(step, {"w": step / 10})
        >>> checkpoints.steps(), checkpoints.resume({"w": 0.0})
        ([20, 30], (30, {'w': 3.0}))
    """

    folder: str | os.PathLike[str]
    keep: int = 3
    asynchronous: bool = False
    hosts: Hosts | None = None
    timeout_s: float = AGE_SECONDS
    keep_every: int | None = None
    store: Store | str | os.PathLike[str] | None = None
    _writer: Writer = field(default_factory=Writer, init=False, repr=False, compare=False)
    _passed_over: set[int] = field(default_factory=set, init=False, repr=False, compare=False)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.wait()

    @cached_property
    def _steps(self) -> Steps:
        """The folder of the checkpoints."""
        return steps_of(self.folder, self.store, self.timeout_s)

    @property
    def _hosts(self) -> Hosts:
        return self.hosts or Hosts.here()

    def _agree(self, topic: str, payload: Any, decide: Decide, hosts: Hosts | None = None) -> Any:
        place = self._steps.root / MEETING
        return agree(place, hosts or self._hosts, topic, payload, decide, self.timeout_s)

    def path(self, step: int) -> Path:
        """Returns the path of a step, as `load` takes it: its folder, or where it is in a store.

        Raises:
            ArgumentError: if the step is no integer, or negative.
        """
        number = _count(step)
        if number is None:
            raise ArgumentError(
                "steps are counted from 0",
                got=f"step {step!r}",
                hint="give how many steps were made, an int",
            )
        return self._steps.path(number)

    def steps(self) -> list[int]:
        """Returns the steps that have a checkpoint, the oldest first."""
        return sorted(step for step, whole in self._steps.found() if whole)

    def clear(self) -> None:
        """Deletes all checkpoints, so that a run begins anew."""
        self.wait()
        for step, _ in self._steps.found():
            self._steps.delete(step)

    def wait(self) -> None:
        """Waits until the checkpoint that is being written is whole.

        Raises:
            Exception: that ended the writing, as those of `save`.
        """
        self._writer.wait()

    def save(self, step: int, pytree: object, *, metadata: Mapping[str, str] | None = None) -> None:
        """Writes the checkpoint of a step, then deletes those that are too old.

        All hosts call it for the same steps.  If it is asynchronous, it waits for the save before,
        holds the arrays, and returns.

        Args:
            step: number of steps made, not below that of the newest checkpoint.
            pytree: the state of the run, as `nn.state.save` takes it; arrays may be divided among
                devices of several hosts.
            metadata: texts to store with it.

        Raises:
            ArgumentError: if the step is no number of one, a later one is there already, `keep`
                keeps nothing, or a leaf of the tree cannot be saved.
            StateError: if another process is saving into the folder.
            HostError: if another host failed, or was not there in time.
            OSError: if the system refuses; the checkpoints are then what they were.  If it is
                asynchronous, errors of writing are raised by the next `save`, `wait` or `resume`.
        """
        self.path(step)
        self.wait()
        steps = [other for other in self.steps() if other not in self._passed_over]
        keep, number = _count(self.keep), _count(step)
        if self.keep_every is not None:
            integer("Checkpoints", "keep_every", self.keep_every, 1)
        assert number is not None
        if (steps and steps[-1] > number) or not keep:
            raise ArgumentError(
                "a checkpoint is written after all others, and kept",
                got=f"step {step} after {steps}, keep={self.keep}",
                hint="resume from the newest, or use another folder",
            )
        cluster = None if self.hosts else platforms.cluster()
        hosts = self._hosts if cluster is None else Hosts.of(cluster)
        texts = safetensors.checked_texts(metadata or {})
        held = hold(pytree, hosts, copy=self.asynchronous)
        self._steps.root.mkdir(parents=True, exist_ok=True)
        lock = _Lock(self._steps.root) if not hosts.index else None
        topic = f"save step {number}"
        if cluster is not None:  # a worker may still wait for a save that has failed here
            topic += f" ({os.urandom(4).hex()})"
            folder = os.path.abspath(self._steps.path(number).parent)
            cluster.save(folder, number, topic, self.timeout_s, held.others)

        def write() -> None:
            nonlocal held
            try:
                self.write(number, held, texts, keep, hosts, topic)
            finally:
                del held
                if lock is not None:
                    lock.release()

        if self.asynchronous:
            self._writer.start(write)
        else:
            write()

    def write(
        self,
        step: int,
        held: Held,
        texts: Mapping[str, str],
        keep: int,
        hosts: Hosts | None = None,
        topic: str = "",
    ) -> None:
        """Writes the pieces of this host; host 0 writes the manifest, when all have; see `save`."""
        hosts, steps, token = hosts or self._hosts, self._steps, os.urandom(4).hex()
        decide = lambda payloads: self._commit(step, held, texts, token, payloads)
        try:
            steps.begin(step)
            with steps.writing():
                write = lambda: steps.write(step, held, token, hosts.index, hosts.count)
                payload, cause = _payload(write)
                if cause is not None and hosts.count == 1:
                    raise cause
                try:
                    self._agree(topic or f"save step {step}", payload, decide, hosts)
                except HostError as error:
                    raise (cause or error) from None
        except BaseException:
            # Of several hosts, host 0 may yet name the file in its manifest.
            if hosts.count == 1:
                steps.discard(step, token)
            raise
        if not hosts.index:
            self._passed_over.discard(step)
            self._prune(step, keep)

    def _commit(
        self, step: int, held: Held, texts: Mapping[str, str], token: str, payloads: list[Any]
    ) -> str:
        """Writes the manifest of what all hosts have written."""
        failed = [f"host {i}: {p['error']}" for i, p in enumerate(payloads) if "error" in p]
        if failed:
            raise HostError(f"step {step} was not saved by all hosts", got="; ".join(failed))
        empty = manifests.empty(step, token)._replace(metadata=dict(texts), **held.leaves())
        self._steps.commit(step, empty, payloads)
        return token

    def _prune(self, newest: int, keep: int) -> None:
        """Deletes what is older than the newest whole checkpoints, and what is left of others.

        The one that has just been written was read back from the disk; of those before it, one
        that is damaged does not count.
        """
        steps, kept = self._steps, 0
        found = sorted(steps.found(), reverse=True)
        for step, whole in found:
            if step > newest:
                continue  # another host may be writing it
            if whole and self.keep_every and step % self.keep_every == 0:
                kept += kept < keep and (step == newest or not steps.broken(step))
            elif kept >= keep or not whole:
                if not steps.pinned(step):
                    steps.delete(step)
            elif step == newest or not steps.broken(step):
                kept += 1
        steps.sweep(newest)

    def resume(self, first: T, *, static: state.Static = "check") -> tuple[int, T]:
        """Returns the newest step that is whole and its tree; step 0 and `first` if there is none.

        A checkpoint that is damaged, or not finished, is passed over with a warning that says why.

        Args:
            first: what the run begins with, whose structure, shapes and dtypes are expected.
                Arrays come to the devices where those of `first` are, divided as they are there,
                whatever the mesh was on which they were saved.
            static: as of `nn.checkpoint.load`.

        Raises:
            DamagedError: if there are checkpoints, and none is whole.
            StateError: if the newest is of another run.
            HostError: if another host was not there in time.
        """
        self.wait()
        step, result = self._newest(first, "the run begins anew", static=static)
        return (0, first) if step is None else (step, result)

    def restore(
        self,
        template: Any = None,
        *,
        step: int | None = None,
        only: str | Sequence[str] = (),
        at: str = "",
        static: state.Static = "check",
    ) -> Any:
        """Returns the tree of a checkpoint, or a part of it, such as the encoder of another run.

        Args:
            template: the tree expected, as of `nn.checkpoint.load`; None for a dict by names.
            step: of the checkpoint; None for the newest that is whole, as `resume` finds it.
            only: patterns of the names that are wanted, such as ``"encoder.*"``; all if there are
                none.  Other leaves of the template are given back as they are.
            at: the name of the subtree that the template describes, such as ``"model.encoder"``.
            static: as of `nn.checkpoint.load`.

        Raises:
            DamagedError: if the checkpoint, or each of them, is damaged.
            StateError: if there is none, or it does not hold what the template describes.
            ArgumentError: if a leaf of the template has no shape, or the step is no number of one.
            HostError: if another host was not there in time.

        Example:
            >>> import tempfile
            >>> checkpoints = Checkpoints(tempfile.mkdtemp())
            >>> checkpoints.save(5, {"model": {"encoder": 1.5, "head": 2.0}, "epoch": 1})
            >>> checkpoints.restore({"encoder": 0.0, "head": 0.0}, only="encoder", at="model")
            {'encoder': 1.5, 'head': 0.0}
            >>> checkpoints.restore(step=5, only="model.*")
            {'model.encoder': 1.5, 'model.head': 2.0}
        """
        self.wait()
        if step is None:
            found, result = self._newest(template, "there is no other", only, at, static)
            if found is not None:
                return result
        elif _count(step) in dict(self._steps.found()) or self.path(step).exists():
            return load(self.path(step), template, only=only, at=at, static=static)
        raise StateError(
            f"{os.fspath(self.folder)} has no such checkpoint",
            got=f"step={step}, of steps {self.steps()}",
            hint="name the folder of a run, and one of its steps",
        )

    def _newest(
        self,
        template: Any,
        otherwise: str,
        only: str | Sequence[str] = (),
        at: str = "",
        static: state.Static = "check",
    ) -> tuple[int | None, Any]:
        """The newest step that is whole and its tree; a warning of those that are passed over."""
        found = sorted(self._steps.found(), reverse=True)
        whole = [step for step, is_whole in found if is_whole]
        if self._hosts.count > 1:  # all take what host 0 sees, whatever their view of the folder
            whole = self._agree("which checkpoints there are", None, lambda _: whole)
        reasons = {step: "its writer was ended" for step, is_whole in found if not is_whole}
        for step in whole:
            reason, result = self._tried(step, template, only, at, static)
            if self._hosts.count > 1:
                reason = self._agree(f"whether step {step} is whole", reason, _first_reason)
            if reason is None:
                newer = {other: why for other, why in reasons.items() if other > step}
                self._passed_over.update(newer)
                self._warn(newer, f"step {step} is taken")
                return step, result
            reasons[step] = reason
        if not whole:
            self._warn(reasons, otherwise)
            return None, None
        raise DamagedError(
            f"no checkpoint in {os.fspath(self.folder)} is whole",
            got="; ".join(
                f"step {step}: {reasons[step]}" for step in whole[: safetensors.MAX_SHOWN]
            ),
            hint="Checkpoints.clear() begins anew; python -m tfn.nn.checkpoint verify says more",
        )

    def _tried(
        self, step: int, template: Any, only: str | Sequence[str], at: str, static: state.Static
    ) -> tuple[str | None, Any]:
        """A reason not to take a checkpoint, or None and its tree."""
        path, hosts = self.path(step), self._hosts
        try:
            with opened(path) as reader:
                if reader.manifest.step not in (None, step):
                    raise DamagedError(
                        f"{path} is of another step",
                        got=f"step {reader.manifest.step} in its header",
                    )
                result = restored(path, reader, template, only, at, static)
                if not (only or at):  # else the rest would be read, too
                    verify(path, reader, slice(hosts.index, None, hosts.count))
        except OSError as error:
            return str(error), None
        except DamagedError as error:
            return f"{error.what} ({error.got})" if error.got else error.what, None
        return None, result

    def _warn(self, reasons: Mapping[int, str], then: str) -> None:
        """Warn of checkpoints that are passed over, on one host."""
        for step, reason in sorted(reasons.items(), reverse=True) if not self._hosts.index else ():
            warnings.warn(
                f"the checkpoint of step {step} in {os.fspath(self.folder)} is passed over: "
                f"{reason}; {then}",
                stacklevel=4,
            )


def _payload(write: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], Exception | None]:
    """The answer of a host that has written its pieces, or could not."""
    try:
        return write(), None
    except Exception as error:
        return {"error": str(error)}, error


def _first_reason(reasons: list[str | None]) -> str | None:
    """The first reason of a host."""
    return next((f"host {i}: {r}" for i, r in enumerate(reasons) if r is not None), None)


class _Lock:
    """A lock on a folder, until it is released, forgotten, or the process ends.

    Raises:
        StateError: if another process has it.
    """

    def __init__(self, folder: PathLike) -> None:
        self._descriptor: int | None = None
        self._descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                return  # folders cannot be locked on some network file systems
            raise StateError(
                f"another process is saving into {os.fspath(folder)}",
                hint="each run has a folder of its own: end the other one, or name another folder",
            ) from None

    def release(self) -> None:
        """Give it back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    __del__ = release


def _count(value: Any) -> int | None:
    """Returns a number of steps as an int; None for anything but a non-negative integer."""
    try:
        number = operator.index(value)
    except TypeError:
        return None
    return None if number < 0 or isinstance(value, bool) else number
