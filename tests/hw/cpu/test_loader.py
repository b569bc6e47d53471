"""JIT linker: symbols, sharing of loaded code, unloading."""

from __future__ import annotations

import ctypes
import gc

import pytest

from tests.hw.programs import SCALE
from tfn.config import config
from tfn.errors import CompileError
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.loader import LINKER_LIBRARIES, Loader
from tfn.hw.cpu.target import host


class Memory(ctypes.Structure):
    """What `mallinfo2` gives."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


LIBRARY = """
declare double @fmod(double, double)
declare ptr @memset(ptr, i32, i64)
define double @f(double %x) {
  %y = frem double %x, 1.0e1
  ret double %y
}
define void @zero(ptr %p, i64 %n) {
  %q = call ptr @memset(ptr %p, i32 0, i64 %n)
  ret void
}
@table = internal constant [4 x float] [float 1.0, float 2.0, float 4.0, float 8.0]
define float @look(i64 %i) {
  %at = getelementptr float, ptr @table, i64 %i
  %x = load float, ptr %at
  ret float %x
}
"""


@pytest.fixture(scope="module")
def compiler():
    return LlvmCompiler()


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    """Objects of a cache that an earlier run has filled hold other functions together."""
    monkeypatch.setattr(config, "disk_cache", False)


def test_code_may_use_the_c_library_and_its_own_constants(compiler):
    code = Loader(compiler).load(compiler.compile(LIBRARY, host()), ("f", "zero", "look"))
    fmod = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.addresses["f"])
    assert fmod(23.5) == 3.5
    memory = ctypes.create_string_buffer(b"xxxx")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.addresses["zero"])(
        ctypes.addressof(memory), 3
    )
    assert memory.raw == b"\0\0\0x\0"
    look = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(code.addresses["look"])
    assert [look(i) for i in range(4)] == [1, 2, 4, 8]


def test_an_object_is_loaded_once_and_unloaded_with_its_last_user(compiler):
    loader, data = Loader(compiler), compiler.compile(SCALE, host())
    first = loader.load_once({"scale": data})["scale"]
    assert loader.load_once({"scale": data})["scale"] is first
    address = first.addresses["scale"]
    del first
    gc.collect()
    again = loader.load_once({"scale": data})["scale"]
    assert again.addresses["scale"] and address
    other = compiler.compile(SCALE.replace("3.0", "5.0"), host())
    assert loader.load_once({"scale": other})["scale"] is not again


def test_an_object_of_several_functions_is_linked_once_for_all(compiler):
    """And again for one that was not asked for, which goes on when the others are gone."""
    loader = Loader(compiler)
    texts = [SCALE.replace("@scale", f"@scale{i}") for i in range(3)]
    data = compiler.compile_all(texts, host())
    assert data[0] is data[1] is data[2]
    found = loader.load_once({"scale0": data[0], "scale1": data[1]})
    assert found["scale0"] is found["scale1"]
    assert set(found["scale0"].addresses) == {"scale0", "scale1"}
    both = loader.load_once({"scale1": data[1], "scale2": data[2]})
    assert both["scale1"] is found["scale1"] and set(both["scale2"].addresses) == {"scale2"}
    assert loader.load_once({}) == {}


def test_unloaded_code_leaks_no_memory(compiler):
    """LLVM's own memory, too: 9 KB a library would be 180 MB after 10,000 programs."""
    loader, data = Loader(compiler), compiler.compile(SCALE, host())

    def used_bytes() -> int:
        gc.collect()
        found = mallinfo2()
        return found.uordblks + found.hblkhd

    def load(count):
        for _ in range(count * LINKER_LIBRARIES):
            loader.load(data, ("scale",))

    mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo2 is None:
        pytest.skip("only the C library of GNU says how much memory is in use")
    mallinfo2.restype = Memory
    kept = loader.load(data, ("scale",))
    load(2)
    before = used_bytes()
    load(4)
    assert used_bytes() - before < 4 * LINKER_LIBRARIES * 1000
    x, y = (ctypes.c_float * 2)(1.0, 2.0), (ctypes.c_float * 2)()
    places = (ctypes.c_void_p * 2)(ctypes.addressof(x), ctypes.addressof(y))
    scale = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    scale(kept.addresses["scale"])(0, 2, ctypes.addressof(places))
    assert list(y) == [3.0, 6.0]


CALLER = """
declare void @scale0(i64, i64, ptr)
declare void @scale1(i64, i64, ptr)
define void @main(ptr %operands) {
  call void @scale0(i64 0, i64 2, ptr %operands)
  call void @scale1(i64 2, i64 4, ptr %operands)
  ret void
}
"""


def run_main(code):
    x, y = (ctypes.c_float * 4)(1.0, 2.0, 3.0, 4.0), (ctypes.c_float * 4)()
    places = (ctypes.c_void_p * 2)(ctypes.addressof(x), ctypes.addressof(y))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.addresses["main"])(ctypes.addressof(places))
    return list(y)


def test_a_driver_and_its_kernels_are_one_library(compiler):
    """But for those that are loaded already; and they are found by others from then on."""
    loader, caller = Loader(compiler), compiler.compile(CALLER, host())
    data = [compiler.compile(SCALE.replace("@scale", f"@scale{i}"), host()) for i in range(2)]
    objects = {"scale0": data[0], "scale1": data[1]}
    first = loader.load_with("main", caller, objects)
    assert set(first.addresses) == {"main", "scale0", "scale1"} and run_main(first) == [3, 6, 9, 12]
    assert loader.load_once(objects) == {"scale0": first, "scale1": first}
    second = loader.load_with("main", caller, objects)
    assert set(second.addresses) == {"main"} and run_main(second) == [3, 6, 9, 12]


def test_objects_with_a_common_function_are_separate_libraries(compiler):
    loader, caller = Loader(compiler), compiler.compile(CALLER, host())
    texts = [SCALE.replace("@scale", f"@scale{i}") for i in range(2)]
    both = compiler.compile_all(texts, host())[0]
    code = loader.load_with(
        "main", caller, {"scale0": both, "scale1": compiler.compile(texts[1] + "\n", host())}
    )
    assert set(code.addresses) == {"main"} and run_main(code) == [3, 6, 9, 12]
    with pytest.raises(CompileError, match="main cannot be linked"):
        loader.load_with("main", caller, {"scale0": both})


def test_a_missing_symbol_is_an_error(compiler):
    text = "declare void @nowhere()\ndefine void @main() {\n call void @nowhere()\n ret void\n}"
    with pytest.raises(CompileError, match="main cannot be linked"):
        Loader(compiler).load(compiler.compile(text, host()), ("main",))
    with pytest.raises(CompileError, match="cannot be linked"):
        Loader(compiler).load(compiler.compile(SCALE, host()), ("absent",))
    with pytest.raises(CompileError, match="cannot be linked"):
        Loader(compiler).load(b"not an object", ("main",))
