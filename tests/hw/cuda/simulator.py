"""A CUDA driver without hardware: libcuda's functions in Python, kernels on this processor.

It holds the calls to their order and arguments, keeps the memory of the device on the host, where
nothing but the driver may touch it, and runs each stream as late as it may: so a copy that nothing
waits for is seen, as is pinned memory that is written too early.  Kernels are the LLVM IR that is
compiled for GPUs, compiled for this machine; `simulator.c` runs their threads.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.hw.cuda.prototypes import mistake
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.loader import Loader
from tfn.hw.cpu.target import host
from tfn.hw.cuda import library
from tfn.hw.cuda.driver import ATTRIBUTES
from tfn.hw.cuda.graph import IF, ConditionalNode, KernelNode
from tfn.hw.cuda.library import SYMBOLS, Library
from tfn.lower.target.grid import STATIC_LOCAL_BYTES
from tfn.lower.target.target import Target

NATIVE = {
    "cuCtxSetCurrent": (ctypes.c_void_p,),
    "cuMemFree": (ctypes.c_uint64,),
    "cuMemcpyHtoDAsync": (ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p),
    "cuGraphLaunch": (ctypes.c_void_p, ctypes.c_void_p),
}
"""The functions that native code calls by their addresses, and the types of their arguments."""
SEPARATOR = "\n; ---\n"
INVALID_VALUE, INVALID_PTX, NOT_FOUND, ILLEGAL_ADDRESS = 1, 218, 500, 700
NAMES = {
    1: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    100: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    218: ("CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"),
    500: ("CUDA_ERROR_NOT_FOUND", "named symbol not found"),
    600: ("CUDA_ERROR_NOT_READY", "device not ready"),
    700: ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
    704: ("CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"),
    719: ("CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
}
# fmt: off
INTRINSICS = {
    "nvvm.read.ptx.sreg.tid.x": "sim_tid",
    "nvvm.read.ptx.sreg.ctaid.x": "sim_ctaid",
    "nvvm.barrier.cta.sync.aligned.all": "sim_barrier",
    "nvvm.shfl.sync.bfly.i32": "sim_bfly",
    "nvvm.shfl.sync.down.i32": "sim_down",
    "nvvm.shfl.sync.idx.i32": "sim_idx",
    "nvvm.mma.m16n8k16.row.col.bf16": "sim_mma_bf16",
    "nvvm.mma.m16n8k16.row.col.f32.f32": "sim_mma_f16",
    "nvvm.mma.m16n8k8.row.col.tf32": "sim_mma_tf32",
    "nvvm.mma.m16n8k32.row.col.s8": "sim_mma_s8",
    "nvvm.ldmatrix.sync.aligned.m8n8.x2.b16.p3": "sim_matrices2",
    "nvvm.ldmatrix.sync.aligned.m8n8.x2.trans.b16.p3": "sim_matrices2t",
    "nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3": "sim_matrices4",
    "nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3": "sim_matrices4t",
    "nvvm.cp.async.ca.shared.global.4": "sim_copy4",
    "nvvm.cp.async.ca.shared.global.8": "sim_copy8",
    "nvvm.cp.async.cg.shared.global.16": "sim_copy16",
    "nvvm.cp.async.commit.group": "sim_commit",
    "nvvm.cp.async.wait.group": "sim_wait",
}
# fmt: on
"""The function of `simulator.c` for each intrinsic of LLVM."""
_KERNEL = re.compile(r"define ptx_kernel void @(\w+)\(((?:[^()]|\(\d\))*)\)")
_SHARED = re.compile(r"@[\w.]+ = internal addrspace\(3\) global \[(\d+) x i8\]")
_AT_LAUNCH = "external addrspace(3) global [0 x i8]"
MOST_SHARED_BYTES = 227 << 10


@cache
def threads() -> ctypes.CDLL:
    """The functions of `simulator.c`, which all code of this process may call."""
    folder = tempfile.mkdtemp()
    target = f"{folder}/simulator.so"
    source = Path(__file__).with_suffix(".c")
    options = ["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", target, str(source)]
    subprocess.run(["gcc", *options], check=True)
    return ctypes.CDLL(target, ctypes.RTLD_GLOBAL)


def for_host(text: str) -> str:
    """LLVM IR of NVPTX as that of a processor: one address space, functions for intrinsics."""
    same = r"getelementptr i8, ptr \1, i64 0"
    text = re.sub(r"addrspacecast ptr addrspace\(\d\) (\S+) to ptr", same, text)
    text = re.sub(r"addrspacecast ptr (\S+) to ptr addrspace\(\d\)", same, text)
    text = text.replace(_AT_LAUNCH, f"internal global [{MOST_SHARED_BYTES} x i8] undef")
    if "sim_group_mma" not in text and _GROUP_MMA.search(text):
        text += "declare void @sim_group_mma(ptr, ptr, ptr, i32, i32, i32, i32, i32)\n"
        text += "declare void @sim_group_wait(ptr)\n"
    text = re.sub(r" addrspace\(\d\)", "", text).replace("ptx_kernel ", "")
    for name, function in INTRINSICS.items():
        text = re.sub(rf"@llvm\.{re.escape(name)}\(", f"@{function}(", text)
    text = re.sub(r"\{(i32|float), \1, \1, \1\}", r"<4 x \1>", text)
    text = text.replace("{i32, i32}", "<2 x i32>")
    text = re.sub(r"extractvalue (<[24] x \w+> %\w+), (\d)", r"extractelement \1, i32 \2", text)
    text = "\n".join(map(_halves_as_words, text.splitlines()))
    text = _GROUP_MMA.sub(_group_product, text)
    assert "@llvm.nvvm" not in text, re.findall(r"@llvm\.nvvm[\w.]+", text)
    return text


_GROUP_MMA = re.compile(
    r"  (?P<result>%\w+) = call \{[^}]*\} asm sideeffect \"(?P<text>[^\"]*wgmma[^\"]*)\", "
    r"\"[^\"]*\"\((?P<places>(?:i64 [^,]+, )*)(?P<sums>[^)]*)\) #1"
)
_PRODUCT = re.compile(
    r"m64n(?P<columns>\d+)k\d+\.[fs]32\.(?P<dtype>\w+)\.\2 "
    r".*?, p(?:, 1, 1)?(?:, (?P<a>\d), (?P<b>\d))?;.*"
    r"wait_group\.sync\.aligned (?P<pending>\d)"
)


def _group_product(found: re.Match[str]) -> str:
    """A call in place of the assembly of a product of four warps, or of a wait for it."""
    result, of_sum = found["result"], found["sums"].split()[0]
    sums = found["sums"].replace(f"{of_sum} ", "").split(", ")
    kind = f"{{{', '.join([of_sum] * len(sums))}}}"
    lines = [f"  {result}.m = alloca {kind}"]
    arguments = [f"ptr {result}.m"]
    for i, place in enumerate(re.findall(r"i64 ([^,]+), ", found["places"])):
        lines.append(f"  {result}.p{i} = inttoptr i64 {place} to ptr")
        arguments.append(f"ptr {result}.p{i}")
    words = _PRODUCT.search(found["text"])
    if words is not None:
        assert 2 * len(sums) == int(words["columns"])
        dtype = ("f16", "bf16", "tf32", "s8").index(words["dtype"])
        numbers = words["columns"], words["a"] or 0, words["b"] or 0, dtype
        arguments += [f"i32 {x}" for x in (*numbers, words["pending"])]
    value = "poison"
    for i, x in enumerate(sums):
        lines.append(f"  {result}.i{i} = insertvalue {kind} {value}, {of_sum} {x}, {i}")
        value = f"{result}.i{i}"
    function = "sim_group_mma" if words is not None else "sim_group_wait"
    lines += [
        f"  store {kind} {value}, ptr {result}.m",
        f"  call void @{function}({', '.join(arguments)})",
        f"  {result} = load {kind}, ptr {result}.m",
    ]
    return "\n".join(lines)


def _halves_as_words(line: str) -> str:
    """A call of a product of halves, whose operands are passed as words."""
    if "@sim_mma_f16" not in line:
        return line
    result = line.split("=")[0].strip()
    found = [f"{result}.{i}" for i in range(line.count("<2 x half> %"))]
    before = []
    for word in found:
        (value,) = re.findall(r"<2 x half> (%v\d+)", line)[:1]
        before.append(f"  {word} = bitcast <2 x half> {value} to i32")
        line = re.sub(r"<2 x half> %v\d+", f"i32 {word}", line, count=1)
    return "\n".join([*before, line.replace("<2 x half>", "i32")])


def translate(texts: Sequence[str], target: Target, level: int) -> bytes:
    """Texts as "PTX" of the simulated driver: LLVM IR itself."""
    return SEPARATOR.join(texts).encode()


@dataclass
class Kernel:
    """A kernel that was loaded: its address here, the sizes of its parameters, its shared bytes.

    Attributes:
        asks: whether it needs shared memory that its launches ask for.
        granted: the most bytes of it that they may ask for.
    """

    name: str
    address: int
    sizes: list[int]
    threads: int
    shared_bytes: int
    asks: bool = False
    granted: int = STATIC_LOCAL_BYTES

    def require_shared(self, size: int) -> None:
        """Hold a launch to what its kernel needs."""
        assert bool(size) == self.asks and size <= self.granted


@cache
def _objects(text: str) -> tuple[Any, dict[str, Kernel]]:
    """The code of a text, and its kernels."""
    threads()
    texts = text.split(SEPARATOR)
    compiler = LlvmCompiler()
    data = compiler.translate([for_host(part) for part in texts], host(), 1)
    found = [(m, part) for part in texts for m in _KERNEL.finditer(part)]
    code = Loader(compiler).load(data, [m[1] for m, _ in found])
    kernels = {}
    for m, part in found:
        sizes = [4 if p.strip().startswith("i32") else 8 for p in m[2].split(",")]
        shared = sum(map(int, _SHARED.findall(part)))
        size = re.search(r'"nvvm.reqntid"="(\d+)"', part[m.end() :])
        assert size is not None
        kernels[m[1]] = Kernel(
            m[1], code.addresses[m[1]], sizes, int(size[1]), shared, _AT_LAUNCH in part
        )
    return code, kernels


@dataclass
class Context:
    """The context of a device, and the devices whose memory it may reach."""

    device: int
    peers: set[int] = field(default_factory=set)


class DeviceMemory:
    """Memory that the host reaches in the work of streams alone; else it is a segmentation fault.

    Addresses are not used again, so that those of blocks that are gone are none.
    """

    BYTES = 16 << 30  # of addresses; pages are there when they are written
    POISON = 0x71

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self._libc.mmap.restype = ctypes.c_void_p
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
        zero, size = ctypes.c_void_p(), ctypes.c_size_t(self.BYTES)
        self._begin = self._libc.mmap(zero, size, 0, flags, -1, ctypes.c_long(0))
        self._used, self._depth = mmap.PAGESIZE, 0

    def __del__(self) -> None:
        self._libc.munmap(ctypes.c_void_p(self._begin), ctypes.c_size_t(self.BYTES))

    def allocate(self, size: int) -> int:
        """The address of new memory, a multiple of 256."""
        address, self._used = self._begin + self._used, self._used + -(-size // 256) * 256 + 256
        assert self._used <= self.BYTES, "a test allocates more than the simulated GPU has"
        with self.reached():
            ctypes.memset(address, self.POISON, size)
        return address

    def _protect(self, protection: int) -> None:
        length = -(-self._used // mmap.PAGESIZE) * mmap.PAGESIZE
        code = self._libc.mprotect(
            ctypes.c_void_p(self._begin), ctypes.c_size_t(length), protection
        )
        assert code == 0

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Let the host reach it."""
        self._depth += 1
        self._protect(mmap.PROT_READ | mmap.PROT_WRITE)
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._protect(0)


_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which the module mmap does not name


@dataclass
class Stream:
    """Work that has not run yet."""

    memory: DeviceMemory
    work: list[Callable[[], None]] = field(default_factory=list)
    device: int = 0

    def run(self, count: int | None = None) -> None:
        """Run what comes first."""
        if not self.work:
            return
        with self.memory.reached():
            while self.work and count != 0:
                self.work.pop(0)()
                count = None if count is None else count - 1


@dataclass
class Event:
    """A point in a stream, by the work that comes before it."""

    done: bool = True
    stream: Stream | None = None

    def happen(self) -> None:
        """Run its stream up to it."""
        while not self.done:
            assert self.stream is not None and self.stream.work
            self.stream.run(1)


@dataclass
class Node:
    """A node of a graph: a kernel with its values, or a graph under a condition."""

    kernel: Kernel | None = None
    groups: int = 0
    count: int = 0
    values: Any = None
    handle: int = 0
    kind: int = IF
    body: Graph | None = None


@dataclass
class Graph:
    """Nodes in a chain; `handles` are of this graph."""

    nodes: list[Node] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    handles: dict[int, int] = field(default_factory=dict)
    is_alive: bool = True


class SimulatedCuda:
    """The functions of libcuda.

    Attributes:
        calls: how often each was called.
        memory: the sizes of blocks of the device, by their addresses.
        fails: codes that functions return at their next call, by name.
        fault: what the next kernel to run returns; a context that has failed fails for ever.
        limit_bytes: memory of the device.
        reverse: whether threads and groups run in the reverse order.
    """

    def __init__(self, limit_bytes: int = 1 << 30, version: int = 13000, count: int = 1) -> None:
        self.calls: Counter[str] = Counter()
        self.launched: list[str] = []
        self.memory: dict[int, int] = {}
        self.blocks = DeviceMemory()
        self.pinned: dict[int, int] = {}
        self.objects: dict[int, Any] = {}
        self.fails: dict[str, int] = {}
        self.fault = self.lost = 0
        self.limit_bytes, self.version, self.count = limit_bytes, version, count
        self.reverse = False
        self.attributes = {
            "core_threads": 2048, "group_threads": 1024, "warp_threads": 32, "cores": 132,
            "l2_bytes": 50 << 20,
            "major": 9, "minor": 0, "core_local_bytes": 228 << 10, "registers": 65536,
            "local_bytes": 227 << 10,
        }  # fmt: skip
        self.conditions = (ctypes.c_uint32 * 4096)()
        self.handles = 0
        self.contexts = [Context(number) for number in range(count)]
        self.current = self.contexts[0] if count else Context(0)
        self.owners, self.links = dict[int, int](), True
        self.machine = os.getpid()  # that has the GPUs

    def library(self) -> Library:
        """The table of functions."""
        functions = {name: self._function(name) for name in SYMBOLS}
        for name, kinds in NATIVE.items():
            functions[name] = self._for_native_code(functions[name], kinds)
        return Library(functions)

    @staticmethod
    def _for_native_code(function: Callable[..., int], kinds: Sequence[Any]) -> Any:
        """A function that has an address; its arguments are wrapped as those from Python."""

        def boxed(*arguments: Any) -> int:
            return function(*[kind(x) for kind, x in zip(kinds, arguments, strict=True)])

        return ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(boxed)

    def _function(self, name: str) -> Callable[..., int]:
        method = getattr(self, name)

        def function(*arguments: Any) -> int:
            self.calls[name] += 1
            assert not mistake(SYMBOLS[name], arguments), mistake(SYMBOLS[name], arguments)
            if name in self.fails:
                return self.fails.pop(name)
            if self.lost and not name.startswith(("cuGetError", "cuEventDestroy", "cuGraphExecD")):
                return self.lost
            code: int | None = method(*arguments)
            return code or self.lost

        return function

    # Handles.

    def _give(self, pointer: Any, thing: Any) -> None:
        """Write a new handle of an object where a pointer points."""
        number = 0x1000 + 16 * len(self.objects)
        self.objects[number] = thing
        pointer._obj.value = number

    def _at(self, handle: Any) -> Any:
        return self.objects[handle if isinstance(handle, int) else handle.value]

    # Devices.

    def cuInit(self, flags: int) -> int:
        return 0 if self.count else 100

    def cuDriverGetVersion(self, out: Any) -> None:
        out._obj.value = self.version

    def cuGetErrorName(self, code: Any, out: Any) -> None:
        out._obj.value = NAMES[code.value][0].encode()

    def cuGetErrorString(self, code: Any, out: Any) -> None:
        out._obj.value = NAMES[code.value][1].encode()

    def cuDeviceGetCount(self, out: Any) -> None:
        out._obj.value = self.count

    def cuDeviceGet(self, out: Any, number: int) -> None:
        out._obj.value = number

    def cuDeviceGetName(self, out: Any, size: int, device: int) -> None:
        out.value = b"a simulated GPU"

    def cuDeviceGetAttribute(self, out: Any, row: int, device: int) -> None:
        out._obj.value = self.attributes[{v: k for k, v in ATTRIBUTES.items()}[row]]

    def cuDeviceTotalMem(self, out: Any, device: int) -> None:
        out._obj.value = self.limit_bytes

    def cuDeviceGetUuid(self, out: Any, device: int) -> None:
        out.raw = f"{self.machine:010}{device:06}".encode()

    def cuDevicePrimaryCtxRetain(self, out: Any, device: int) -> None:
        self._give(out, self.contexts[device])

    def cuCtxSetCurrent(self, context: Any) -> None:
        self.current = self._context(context)

    def _context(self, context: Any) -> Context:
        found = self._at(context)
        assert isinstance(found, Context)
        return found

    def cuDeviceCanAccessPeer(self, out: Any, device: int, other: int) -> None:
        assert device != other
        out._obj.value = int(self.links)

    def cuCtxEnablePeerAccess(self, other: Any, flags: int) -> int | None:
        if self._context(other).device in self.current.peers:
            return library.PEER_ENABLED
        self.current.peers.add(self._context(other).device)
        return None

    # Modules.

    def cuModuleLoadDataEx(
        self, out: Any, data: Any, count: int, options: Any, values: Any
    ) -> int | None:
        text = data.value.decode()
        if not _KERNEL.search(text):
            ctypes.memmove(values[0], b"line 1: no kernel\0", 18)
            return INVALID_PTX
        self._give(out, _objects(text))
        return None

    def cuModuleUnload(self, module: Any) -> None:
        self._at(module)

    def cuModuleGetFunction(self, out: Any, module: Any, name: bytes) -> int | None:
        kernel = self._at(module)[1].get(name.decode())
        if kernel is None:
            return NOT_FOUND
        self._give(out, kernel)
        return None

    def cuFuncGetAttribute(self, out: Any, row: int, function: Any) -> None:
        kernel = self._at(function)
        out._obj.value = {0: 1024, 1: kernel.shared_bytes, 4: 32}[row]

    def cuFuncSetAttribute(self, function: Any, row: int, value: int) -> None:
        assert row == 8 and value <= self.attributes["local_bytes"]
        self._at(function).granted = value

    def cuLinkCreate(self, count: int, options: Any, values: Any, out: Any) -> None:
        self._give(out, {"values": values})

    def cuLinkAddData(
        self, state: Any, kind: int, data: Any, size: Any, name: bytes, *rest: Any
    ) -> int | None:
        assert kind == 1 and data.raw[size.value - 1] == 0
        text = data.value
        if not _KERNEL.search(text.decode()):
            ctypes.memmove(self._at(state)["values"][0], b"line 1: no kernel\0", 18)
            return INVALID_PTX
        self._at(state)["data"] = text
        return None

    def cuLinkComplete(self, state: Any, out: Any, size: Any) -> None:
        data = self._at(state)["data"]
        kept = self._at(state)["kept"] = ctypes.create_string_buffer(data)
        out._obj.value, size._obj.value = ctypes.addressof(kept), len(data)

    def cuLinkDestroy(self, state: Any) -> None:
        self._at(state).clear()

    # Memory.

    def cuMemAlloc(self, out: Any, size: Any) -> int | None:
        used = sum(self.memory.values())
        if used + size.value > self.limit_bytes:
            return library.OUT_OF_MEMORY
        address = self.blocks.allocate(size.value)
        self.memory[address] = size.value
        self.owners[address] = self.current.device
        out._obj.value = address
        return None

    def cuMemFree(self, pointer: Any) -> None:
        del self.memory[pointer.value]

    def cuMemGetInfo(self, free: Any, total: Any) -> None:
        total._obj.value = self.limit_bytes
        free._obj.value = self.limit_bytes - sum(self.memory.values())

    def cuMemHostAlloc(self, out: Any, size: Any, flags: int) -> None:
        block = ctypes.create_string_buffer(size.value)
        address = ctypes.addressof(block)
        self.pinned[address], self.objects[-address] = size.value, block
        out._obj.value = address

    def cuMemFreeHost(self, pointer: Any) -> None:
        del self.pinned[pointer.value]

    def _inside(self, blocks: dict[int, int], address: int, size: int) -> bool:
        return any(at <= address and address + size <= at + n for at, n in blocks.items())

    def _owner(self, address: int, size: int) -> int:
        """The device that has some memory."""
        at = max([begin for begin in self.memory if begin <= address], default=0)
        assert at and address + size <= at + self.memory[at], "no memory of a device"
        return self.owners[at]

    def _copy(self, to: int, source: int, size: int, stream: Any) -> None:
        self._at(stream).work.append(lambda: ctypes.memmove(to, source, size))

    def cuMemcpyHtoDAsync(self, to: Any, source: Any, size: Any, stream: Any) -> int | None:
        if not self._inside(self.memory, to.value, size.value):
            return INVALID_VALUE
        if self._inside(self.pinned, source.value, size.value):
            self._copy(to.value, source.value, size.value, stream)
        else:  # pageable memory is read before the function returns
            assert size.value <= 64 << 10, "pageable memory"
            data = ctypes.string_at(source.value, size.value)
            self._at(stream).work.append(lambda: ctypes.memmove(to.value, data, len(data)))
        return None

    def cuMemcpyDtoHAsync(self, to: Any, source: Any, size: Any, stream: Any) -> int | None:
        if not self._inside(self.memory, source.value, size.value):
            return INVALID_VALUE
        assert self._inside(self.pinned, to.value, size.value), "pageable memory"
        self._copy(to.value, source.value, size.value, stream)
        return None

    def cuMemcpyPeerAsync(
        self, to: Any, here: Any, source: Any, there: Any, size: Any, stream: Any
    ) -> None:
        for address, context in ((to, here), (source, there)):
            device = self._context(context).device
            assert self._owner(address.value, size.value) == device, "memory of another GPU"
        assert self._at(stream).device == self._context(here).device
        self._copy(to.value, source.value, size.value, stream)

    def cuMemsetD8Async(self, to: Any, byte: Any, size: Any, stream: Any) -> None:
        assert self._inside(self.memory, to.value, size.value)
        self._at(stream).work.append(lambda: ctypes.memset(to.value, byte.value, size.value))

    def cuMemcpyDtoDAsync(self, to: Any, source: Any, size: Any, stream: Any) -> None:
        own = self._at(stream).device
        assert self._owner(to.value, size.value) == self._owner(source.value, size.value) == own
        self._copy(to.value, source.value, size.value, stream)

    # Streams and events.

    def cuStreamCreate(self, out: Any, flags: int) -> None:
        self._give(out, Stream(self.blocks, device=self.current.device))

    def cuStreamSynchronize(self, stream: Any) -> int:
        self._at(stream).run()
        return self.lost

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> None:
        # What the event stands for at this moment: it may be recorded again later.
        waited = self._at(event)[0]
        self._at(stream).work.append(waited.happen)

    def cuEventCreate(self, out: Any, flags: int) -> None:
        self._give(out, [Event()])

    def cuEventRecord(self, event: Any, stream: Any) -> None:
        at = self._at(stream)
        point = self._at(event)[0] = Event(False, at)
        at.work.append(lambda: setattr(point, "done", True))

    def cuEventQuery(self, event: Any) -> int:
        return 0 if self._at(event)[0].done else library.NOT_READY

    def cuEventSynchronize(self, event: Any) -> int:
        self._at(event)[0].happen()
        return self.lost

    def cuEventElapsedTime(self, out: Any, first: Any, last: Any) -> None:
        out._obj.value = 1.0

    def cuEventDestroy(self, event: Any) -> None:
        self._at(event)

    # Kernels.

    def _values(self, kernel: Kernel, pointers: Any) -> Any:
        """The values of parameters, which the driver copies at once."""
        values = (ctypes.c_uint64 * 8)()
        for i, size in enumerate(kernel.sizes):
            kind = ctypes.c_uint32 if size == 4 else ctypes.c_uint64
            values[i] = kind.from_address(pointers[i]).value
        return values

    def _run(self, node: Node) -> None:
        assert node.kernel is not None
        if self.fault or self.lost:
            self.lost = self.lost or self.fault
            return
        self.launched.append(node.kernel.name)
        run = threads()
        place = ctypes.c_void_p.in_dll(run, "sim_condition")
        place.value = ctypes.addressof(self.conditions)
        address = ctypes.c_void_p(node.kernel.address)
        if run.sim_launch(address, node.values, node.groups, node.count, int(self.reverse)):
            text = (ctypes.c_char * 256).in_dll(run, "sim_error").value.decode()
            raise AssertionError(f"{node.kernel.name}: {text}")

    def cuLaunchKernel(
        self, function: Any, gx: int, gy: int, gz: int, tx: int, ty: int, tz: int,
        shared: int, stream: Any, values: Any, extra: Any,
    ) -> None:  # fmt: skip
        kernel = self._at(function)
        assert (gy, gz, ty, tz, extra) == (1, 1, 1, 1, None) and tx == kernel.threads
        kernel.require_shared(shared)
        node = Node(kernel, gx, tx, self._values(kernel, values))
        self._at(stream).work.append(lambda: self._run(node))

    # Graphs.

    def cuGraphCreate(self, out: Any, flags: int) -> None:
        self._give(out, Graph())

    def cuGraphDestroy(self, graph: Any) -> None:
        self._at(graph).is_alive = False

    def _add(self, out: Any, graph: Any, before: Any, count: Any, node: Node) -> None:
        to = self._at(graph)
        assert to.is_alive and count.value == bool(to.nodes), "nodes are a chain"
        if before is not None:
            assert before._obj.value == to.ids[-1], "nodes are a chain"
        self._give(out, node)
        to.nodes.append(node)
        to.ids.append(out._obj.value)

    def cuGraphAddKernelNode(
        self, out: Any, graph: Any, before: Any, count: Any, params: Any
    ) -> None:
        p: KernelNode = params._obj
        kernel = self._at(p.function)
        assert tuple(p.groups)[1:] == tuple(p.threads)[1:] == (1, 1)
        assert p.threads[0] == kernel.threads and p.groups[0] > 0
        assert self._context(p.context) is self.current
        kernel.require_shared(p.shared_bytes)
        values = self._values(kernel, p.parameters)
        self._add(out, graph, before, count, Node(kernel, p.groups[0], p.threads[0], values))

    def cuGraphConditionalHandleCreate(
        self, out: Any, graph: Any, context: Any, first: int, flags: int
    ) -> None:
        assert flags == 1 and self._context(context) is self.current
        self.handles += 1
        self._at(graph).handles[self.handles] = first
        out._obj.value = self.handles

    def cuGraphAddNode(self, out: Any, graph: Any, before: Any, count: Any, params: Any) -> None:
        p: ConditionalNode = params._obj
        assert ctypes.sizeof(p) == 256 and p.type == 13 and p.size == 1
        assert p.handle in self._at(graph).handles, "the handle is of the graph of the node"
        body = Graph()
        number = 0x1000 + 16 * len(self.objects)
        self.objects[number] = body
        array = self.objects[-number] = (ctypes.c_void_p * 1)(number)
        p.bodies = ctypes.cast(array, ctypes.POINTER(ctypes.c_void_p))
        self._add(out, graph, before, count, Node(handle=p.handle, kind=p.kind, body=body))

    def cuGraphInstantiateWithFlags(self, out: Any, graph: Any, flags: Any) -> None:
        whole = self._at(graph)
        assert whole.is_alive
        self._give(out, whole)

    def _graph(self, graph: Graph) -> None:
        for handle, first in graph.handles.items():
            self.conditions[handle] = first
        for node in graph.nodes:
            if node.body is None:
                self._run(node)
            elif node.kind == IF:
                if self.conditions[node.handle]:
                    self._graph(node.body)
            else:
                while self.conditions[node.handle] and not self.lost:
                    self._graph(node.body)

    def cuGraphLaunch(self, executable: Any, stream: Any) -> None:
        graph = self._at(executable)
        self._at(stream).work.append(lambda: self._graph(graph))

    def cuGraphExecDestroy(self, executable: Any) -> None:
        # Launches of it that have not run yet run all the same.
        assert isinstance(self._at(executable), Graph)
