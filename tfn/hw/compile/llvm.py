"""LLVM compiler: LLVM IR text becomes an object file, for any target, without a device.

Kernels come tiled, vectorised and unrolled, so LLVM selects instructions and allocates registers
at codegen level 2 and runs no pass pipeline: measured on tiled kernels, passes double the compile
time and change nothing else.

This file owns llvmlite.  Importing that takes 80 to 120 ms, so it happens at first use.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import mmap
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache as once
from pathlib import Path
from typing import Any, TypeVar

from tfn._support import events
from tfn._support.background import Background
from tfn._support.cache import Cache
from tfn.errors import CompileError
from tfn.hw.compile import object_cache
from tfn.hw.compile.object_cache import Counts
from tfn.lower.program import INLINE
from tfn.lower.target.target import Target

CAREFUL = 2  # LLVM's codegen level for kernels
PASSES = 2  # LLVM's level of those over loops and the kernels in them
PART = "objects"  # of the cache on disk
_MAX_MESSAGE_LINES = 6
_SEE = b"see "  # begins an entry that only names another, which has the object

LOCK = threading.RLock()
"""LLVM is entered by one thread at a time, and by none while the process forks or exits: at exit
the destructors of LLVM's globals run."""
EXIT_PATIENCE_SECONDS = 5.0  # an exiting process waits this long for a running compilation
_BINDING: list[Any] = []
T = TypeVar("T")


def _lock_all() -> None:
    """Take LOCK, then llvmlite's own, under which objects of LLVM are freed."""
    LOCK.acquire()
    for llvm in _BINDING:
        llvm.ffi.lib._lock.__enter__()


def _unlock_all() -> None:
    for llvm in _BINDING:
        llvm.ffi.lib._lock.__exit__(None, None, None)
    LOCK.release()


os.register_at_fork(before=_lock_all, after_in_parent=_unlock_all, after_in_child=_unlock_all)
atexit.register(LOCK.acquire, timeout=EXIT_PATIENCE_SECONDS)


def binding() -> Any:
    """The module ``llvmlite.binding``, initialised for this machine's own target."""
    with LOCK:
        if not _BINDING:
            from llvmlite import binding as llvm

            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            llvm.initialize_native_asmparser()
            if uninterrupted(llvm.get_process_triple).startswith("x86_64"):
                # A select of a loop stays one: as a branch it is often mispredicted.
                llvm.set_option("tfn", "-x86-cmov-converter=false")
            _BINDING.append(llvm)
        return _BINDING[0]


def drop_pages() -> None:
    """Take LLVM's code out of the memory of this process, until some of it runs again.

    It is not changed, so the system maps its pages again, in some us each: 20 to 48 MB that would
    count as used while a large model runs, whose programs are all loaded.
    """
    if _BINDING and hasattr(mmap, "MADV_DONTNEED"):
        libc = ctypes.CDLL(None)
        for first, size_bytes in _code():
            libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(size_bytes), mmap.MADV_DONTNEED)


@once
def _code() -> list[tuple[int, int]]:
    """The addresses and sizes of LLVM's code, where the system tells them."""
    maps = Path("/proc/self/maps")
    lines = [line.split() for line in maps.read_text().splitlines()] if maps.exists() else []
    found = [line for line in lines if "r-xp" in line and "libllvmlite" in line[-1]]
    places = [[int(place, 16) for place in line[0].split("-")] for line in found]
    return [(first, last - first) for first, last in places]


def uninterrupted(call: Callable[[], T]) -> T:
    """The result of a call of llvmlite that returns a text, made by a thread of its own.

    llvmlite frees LLVM's copy of such a text before it notes that, and frees it again if an
    interrupt comes between.  Python raises KeyboardInterrupt in the main thread alone.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    return Background(call).result()


@once
def _all_targets() -> None:
    binding().initialize_all_targets()
    binding().initialize_all_asmprinters()
    # Constants of 64 bits as two immediates, not in memory near an address that GP would hold:
    # qemu-hexagon adds GP even to addresses of 32 bits.
    binding().set_option("tfn", "-hexagon-small-data-threshold=0")


@once
def llvmlite_version() -> str:
    """The version of the package; LLVM itself is not loaded for it."""
    import llvmlite

    return str(llvmlite.__version__)


@once
def machine(target: Target, level: int = CAREFUL) -> Any:
    """The TargetMachine of a target; only the holder of LOCK may use it.

    Raises:
        CompileError: if LLVM does not know the triple.
    """
    llvm = binding()
    if target.triple.split("-")[0] != uninterrupted(llvm.get_process_triple).split("-")[0]:
        _all_targets()
    # Code is loaded at any address, so it must be position-independent; the linkers of these two
    # expect static code.
    static = target.triple.startswith(("wasm", "hexagon"))
    with LOCK:
        try:
            return llvm.Target.from_triple(target.triple).create_target_machine(
                cpu=target.cpu,
                features=target.features,
                opt=level,
                reloc="static" if static else "pic",
                codemodel="default",
            )
        except RuntimeError as error:
            raise CompileError(
                f"LLVM cannot make code for {target.triple!r}",
                got=str(error),
                hint="a triple is ARCHITECTURE-VENDOR-SYSTEM, as in x86_64-unknown-linux-gnu",
            ) from None


@once
def _data_layout(target: Target) -> str:
    """Sizes and alignments of types, as modules state them; for the holder of LOCK."""
    data = machine(target).target_data
    return uninterrupted(lambda: str(data))


def assembly(text: str, target: Target, annotated: bool = False) -> str:
    """The assembly code of a text.

    Args:
        text: LLVM IR.
        target: the machine.
        annotated: whether comments name the basic block of LLVM IR that each label begins.

    Raises:
        CompileError: if LLVM does not know the triple.
    """
    llvm, to = binding(), machine(target)
    with LOCK:
        module = llvm.parse_assembly(text, llvm.create_context())
        module.triple, module.data_layout = target.triple, _data_layout(target)
        to.set_asm_verbosity(annotated)
        return str(to.emit_assembly(module))


def signature(text: str, name: str) -> str:
    """The type of a function that a text defines, like ``void (i64, ptr)``.

    Raises:
        CompileError: if LLVM cannot parse the text, or it has no function of this name.
    """
    llvm = binding()
    with LOCK:
        try:
            module = llvm.parse_assembly(text, llvm.create_context())
            return str(module.get_function(name).global_value_type)
        except (RuntimeError, NameError) as error:
            raise CompileError(
                "LLVM cannot read a text",
                got=str(error).strip(),
                hint="check the line that LLVM names",
            ) from None


def merged(texts: Sequence[str]) -> list[str]:
    """Texts of one function each as one text, whose declarations come once; others as they are.

    LLVM makes the same object of it as of linked texts, by fewer calls: each call ends with a wait
    for Python's lock, for up to 5 ms if another thread runs Python.

    Example:
        >>> one = "define void @f() {\\n  ret void\\n}\\ndeclare float @llvm.fabs.f32(float)\\n"
        >>> print(merged([one, one.replace("@f()", "@g()")])[0])
        define void @f() {
          ret void
        }
        define void @g() {
          ret void
        }
        declare float @llvm.fabs.f32(float)
    """
    functions: list[str] = []
    shared: dict[str, None] = {}
    others: list[str] = []
    for text in texts:
        function, end, rest = text.partition("\n}\n")
        lines = rest.splitlines()
        plain = all(line.startswith(_SHARED) or not line for line in lines)
        if plain and function.startswith("define "):
            functions.append(function + end)
            shared |= dict.fromkeys(line for line in lines if line)
        else:
            others.append(text)
    return ["".join(functions) + "\n".join(shared), *others] if functions else others


_SHARED = ("declare ", "attributes ")
"""Lines that the texts of kernels have in common, word for word."""


def _optimise(module: Any, to: Any) -> None:
    """Run LLVM's passes over a module whose functions are made of others; by the holder of LOCK."""
    llvm = binding()
    options = llvm.create_pipeline_tuning_options(speed_level=PASSES)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(to, options)
    builder.getModulePassManager().run(module, builder)


Translate = Callable[[Sequence[str], Target, int], bytes]
"""An object of several texts for a target at a level; raises CompileError."""


class LlvmCompiler:
    """Compiles text once, keeping objects in memory and on disk.

    Attributes:
        verify: whether LLVM checks the text beyond its syntax; without it, ill-formed text that
            parses may crash the process.
        translate: makes objects of texts that are in no cache; LLVM in this process unless given.
        counts: of texts compiled, and of objects from either cache.
    """

    def __init__(self, verify: bool = False, translate: Translate | None = None) -> None:
        self.verify, self.counts = verify, Counts()
        self._translate = translate or self.translate
        self._memory: Cache[bytes] = Cache("objects", len)
        self._unstored: deque[tuple[str, bytes]] = deque()

    def key(self, text: str, target: Target, level: int = CAREFUL) -> str:
        """The digest of everything that determines the object."""
        parts = (llvmlite_version(), target.triple, target.cpu, target.features, str(level))
        return hashlib.sha256("\0".join((*parts, text)).encode()).hexdigest()

    def compile(self, text: str, target: Target, level: int = CAREFUL) -> bytes:
        """An object file from LLVM IR; PTX for NVIDIA's targets.  `level` is LLVM's, 0 to 3.

        Raises:
            CompileError: with LLVM's message.
        """
        return self.compile_all([text], target, level)[0]

    def compile_all(
        self, texts: Sequence[str], target: Target, level: int = CAREFUL
    ) -> list[bytes]:
        """For each text an object that defines its functions.

        Texts that are in no cache are compiled as one module: to start one takes LLVM 1 ms.

        Raises:
            CompileError: with LLVM's message.
        """
        keys = [self.key(text, target, level) for text in texts]
        self._store()  # of what another thread has made, while it makes more
        with LOCK:
            begin_ns, before = time.perf_counter_ns(), self.counts.from_disk
            objects = {key: data for key in keys if (data := self.find(key)) is not None}
            missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in objects}
            if from_disk := self.counts.from_disk - before:
                events.add("cache", "disk hit", begin_ns, f"{from_disk} objects")
            objects |= dict.fromkeys(missing, self.make(missing, target, level))
        self._store()
        return [objects[key] for key in keys]

    def find(self, key: str) -> bytes | None:
        """The object under a key, or under the key that the entry names; None if there is none."""
        data = self.counts.find(self._memory, PART, key)
        if data is None or not data.startswith(_SEE):
            return data
        whole = data[len(_SEE) :].decode(errors="replace")
        data = self._memory.find(whole)
        if data is None and (data := object_cache.fetch(PART, whole)) is not None:
            self._memory.keep(whole, data)
        return data

    def make(self, texts: Mapping[str, str], target: Target, level: int = CAREFUL) -> bytes:
        """One object of those texts, by their keys, that are not in memory.

        It stays in memory; the next `compile_all` stores it.  A thread beside one that lowers would
        wait for Python's lock after each operation on a file.

        Raises:
            CompileError: with LLVM's message.
        """
        with LOCK:
            missing = {key: text for key, text in texts.items() if not self._in_memory(key)}
            if not missing:
                return b""
            begin_ns = time.perf_counter_ns()
            compiled = self._translate(list(missing.values()), target, level)
            self.counts.compiled += len(missing)
            said = f"{len(missing)} texts compiled, {len(compiled):,} bytes"
            events.add("cache", "disk miss", begin_ns, said)
            # Of several texts the object is stored once, under a digest that their entries name.
            first, *more = missing
            entries = {first: compiled}
            if more:
                whole = hashlib.sha256("\0".join(missing).encode()).hexdigest()
                entries = {whole: compiled} | dict.fromkeys(missing, _SEE + whole.encode())
            for key, content in entries.items():
                self._memory.keep(key, content)
            self._unstored.extend(entries.items())
            return compiled

    def _in_memory(self, key: str) -> bool:
        """Whether there is an object under a key, or under the key that the entry names."""
        data = self._memory.find(key)
        if data is not None and data.startswith(_SEE):
            data = self._memory.find(data[len(_SEE) :].decode(errors="replace"))
        return data is not None

    def _store(self) -> None:
        """Write what is in memory alone to the disk."""
        while self._unstored:
            try:
                object_cache.store(PART, *self._unstored.popleft())
            except IndexError:  # another thread was faster
                return

    def translate(self, texts: Sequence[str], target: Target, level: int) -> bytes:
        """An object of several texts, by LLVM in this process, past the caches.

        Raises:
            CompileError: with LLVM's message.
        """
        llvm, to = binding(), machine(target, level)
        layout = _data_layout(target)
        try:
            # The global context would be shared with other users of LLVM, and never shrink.
            context, whole = llvm.create_context(), None
            for text in merged(texts):
                module = llvm.parse_assembly(text, context)
                module.triple, module.data_layout = target.triple, layout
                if self.verify:
                    module.verify()
                if INLINE in text:
                    _optimise(module, to)
                if whole is None:
                    whole = module
                else:
                    # Linking frees the module; an interrupt may come before llvmlite notes that.
                    module._owned = True
                    whole.link_in(module)
            if target.triple.startswith("nvptx"):
                return str(to.emit_assembly(whole)).encode()
            return bytes(to.emit_object(whole))
        except RuntimeError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise CompileError(
                f"LLVM does not accept a text for {target.triple}",
                got="\n       ".join(lines[:_MAX_MESSAGE_LINES]),
                hint="this is a fault of tfn, or of a kernel written by hand",
            ) from None
