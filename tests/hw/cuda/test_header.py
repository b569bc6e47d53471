"""What is called through ctypes, held against cuda.h, where the package or toolkit is there.

`pip install nvidia-cuda-runtime` brings the header alone; nothing of it is needed at run time.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.hw.cuda.prototypes import PROTOTYPES, mistake
from tfn.hw.cuda import compiler, driver, graph, library, queue
from tfn.hw.cuda.library import SYMBOLS

FOLDERS = ("/usr/local/cuda/include", *sorted(map(str, Path("/usr/local").glob("cuda-*/include"))))


@cache
def header() -> str:
    """The path of cuda.h; empty if there is none."""
    packaged = (p for root in map(Path, sys.path) for p in root.glob("nvidia/*/include/cuda.h"))
    known = (p for p in (Path(folder, "cuda.h") for folder in FOLDERS) if p.exists())
    return str(next(chain(known, packaged), ""))


needs_header = pytest.mark.skipif(
    not header(), reason="no cuda.h: pip install nvidia-cuda-runtime, of 2 MB, brings it"
)


def compiled(folder: Path, lines: str) -> dict[str, int]:
    """Numbers of a C program that includes the header, by name."""
    source, program = folder / "numbers.c", folder / "numbers"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <cuda.h>\nint main(void) {\n"
        f"{lines}\nreturn 0; }}\n"
    )
    include = f"-I{Path(header()).parent}"
    subprocess.run(["gcc", include, str(source), "-o", str(program)], check=True)
    ran = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    return {name: int(n) for name, n in (row.split() for row in ran.stdout.splitlines())}


FIELDS: dict[Any, tuple[str, dict[str, str]]] = {
    graph.KernelNode: (
        "CUDA_KERNEL_NODE_PARAMS_v2",
        {
            "function": "func",
            "groups": "gridDimX",
            "threads": "blockDimX",
            "shared_bytes": "sharedMemBytes",
            "parameters": "kernelParams",
            "extra": "extra",
            "kernel": "kern",
            "context": "ctx",
        },
    ),
    graph.ConditionalNode: (
        "CUgraphNodeParams",
        {
            "type": "type",
            "handle": "conditional.handle",
            "kind": "conditional.type",
            "size": "conditional.size",
            "bodies": "conditional.phGraph_out",
            "context": "conditional.ctx",
            "reserved_too": "reserved2",
        },
    ),
}


@needs_header
def test_structures_are_laid_out_as_those_of_the_header(tmp_path: Path) -> None:
    lines, want = [], {}
    for ours, (theirs, fields) in FIELDS.items():
        lines.append(f'printf("{theirs} %zu\\n", sizeof({theirs}));')
        want[theirs] = ctypes.sizeof(ours)
        for name, field in fields.items():
            lines.append(f'printf("{theirs}.{field} %zu\\n", offsetof({theirs}, {field}));')
            want[f"{theirs}.{field}"] = getattr(ours, name).offset
    assert compiled(tmp_path, "\n".join(lines)) == want


ATTRIBUTES = {
    "group_threads": "MAX_THREADS_PER_BLOCK",
    "warp_threads": "WARP_SIZE",
    "cores": "MULTIPROCESSOR_COUNT",
    "l2_bytes": "L2_CACHE_SIZE",
    "core_threads": "MAX_THREADS_PER_MULTIPROCESSOR",
    "major": "COMPUTE_CAPABILITY_MAJOR",
    "minor": "COMPUTE_CAPABILITY_MINOR",
    "core_local_bytes": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "registers": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "local_bytes": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
}
FUNCTION_ATTRIBUTES = {
    "threads": "MAX_THREADS_PER_BLOCK",
    "shared_bytes": "SHARED_SIZE_BYTES",
    "registers": "NUM_REGS",
}


@needs_header
def test_numbers_are_those_of_the_header(tmp_path: Path) -> None:
    want = {f"CU_DEVICE_ATTRIBUTE_{ATTRIBUTES[k]}": n for k, n in driver.ATTRIBUTES.items()}
    want |= {
        f"CU_FUNC_ATTRIBUTE_{FUNCTION_ATTRIBUTES[k]}": n
        for k, n in queue.FUNCTION_ATTRIBUTES.items()
    }
    want |= {
        "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": queue.MAX_DYNAMIC_SHARED_BYTES,
        "CU_STREAM_NON_BLOCKING": driver.NON_BLOCKING,
        "CU_EVENT_DISABLE_TIMING": driver.NO_TIMING,
        "CU_JIT_ERROR_LOG_BUFFER": compiler._ERROR_LOG,
        "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES": compiler._ERROR_LOG_BYTES,
        "CU_JIT_INPUT_PTX": compiler._PTX,
        "CU_GRAPH_NODE_TYPE_CONDITIONAL": graph._CONDITIONAL,
        "CU_GRAPH_COND_TYPE_IF": graph.IF,
        "CU_GRAPH_COND_TYPE_WHILE": graph.WHILE,
        "CU_GRAPH_COND_ASSIGN_DEFAULT": graph._DEFAULT_AT_LAUNCH,
        "CUDA_ERROR_OUT_OF_MEMORY": library.OUT_OF_MEMORY,
        "CUDA_ERROR_NO_DEVICE": library.NO_DEVICE,
        "CUDA_ERROR_NOT_READY": library.NOT_READY,
        "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED": library.PEER_ENABLED,
    }
    lines = "\n".join(f'printf("{name} %d\\n", (int){name});' for name in want)
    assert compiled(tmp_path, lines) == want


@needs_header
def test_errors_that_lose_the_context_are_those_of_the_header() -> None:
    text = Path(header()).read_text()
    errors = text[text.index("enum cudaError_enum {") : text.index("} CUresult;")]
    said = {
        int(code)
        for comment, code in re.findall(r"/\*\*(.*?)\*/\s*CUDA_\w+\s*=\s*(\d+)", errors, re.DOTALL)
        if re.search(r"inconsistent\s+(\*\s+)?state|device-side assert", comment)
    }
    assert said <= library.LOST
    refused = {2, 100, 701}  # these leave all as it was: nothing was launched
    assert not refused & library.LOST


def _letter(parameter: str) -> str:
    """How a parameter of the header is passed."""
    kind = " ".join([word for word in parameter.split()[:-1] if word != "const"])
    if "*" in parameter:
        return "p"
    if kind in ("size_t", "CUdeviceptr", "CUgraphConditionalHandle", "unsigned long long"):
        return "q"
    if kind == "unsigned char":
        return "c"
    words = ("int", "unsigned int", "CUdevice", "CUresult", "CUjitInputType")
    return "i" if kind in words or kind.endswith("_attribute") else "p"


@needs_header
def test_prototypes_are_those_of_the_header(tmp_path: Path) -> None:
    """All versions of a function are declared, as the library has them."""
    source = tmp_path / "all.c"
    source.write_text("#include <cuda.h>\n")
    options = ["-E", "-P", "-D__CUDA_API_VERSION_INTERNAL", f"-I{Path(header()).parent}"]
    ran = subprocess.run(["gcc", *options, str(source)], capture_output=True, text=True, check=True)
    text = " ".join(ran.stdout.split())
    for symbol, letters in PROTOTYPES.items():
        found = re.search(rf"CUresult {symbol}\(([^)]*)\);", text)
        assert found is not None, symbol
        assert "".join(_letter(p.strip()) for p in found[1].split(",")) == letters, symbol


def test_each_function_has_a_prototype() -> None:
    assert {*SYMBOLS.values()} == {*PROTOTYPES}


def test_calls_that_c_would_take_otherwise_are_mistakes() -> None:
    pointer, size = ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(8)
    assert not mistake("cuMemAlloc_v2", (pointer, size))
    assert "not passed as q" in mistake("cuMemAlloc_v2", (pointer, 8))
    assert "takes 2 arguments" in mistake("cuMemAlloc_v2", (pointer,))
    assert "not passed as p" in mistake("cuCtxSetCurrent", (0x7F0012345678,))
    assert "not passed as p" in mistake("cuCtxSetCurrent", (ctypes.c_uint64(1),))
    assert "not passed as i" in mistake("cuInit", (ctypes.c_uint64(0),))
