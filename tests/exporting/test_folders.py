"""Folders of projects: built by CMake, and a sketch that is run with a stand-in for Arduino."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.exporting.building import MAIN, WARNINGS
from tfn.errors import ArgumentError, ExportError

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
PROJECT = """\
cmake_minimum_required(VERSION 3.13)
project(main C)
add_subdirectory(model)
add_executable(main main.c)
target_link_libraries(main model)
"""
ARDUINO = """\
#include <stdio.h>
static struct {
  void begin(long) {}
  void print(const char *text) { printf("%s", text); }
  void println(unsigned long) { puts("."); }
} Serial;
static unsigned long micros() { return 0; }
static void delay(int) {}
#include "SKETCH"
int main() {
  setup();
  loop();
  loop();
  return printf("%g\\n", (double)out_1_room[0]) < 0;
}
"""


def squashed(x: Any) -> Any:
    return tnp.tanh(x @ x.T), x.sum()


@pytest.mark.skipif(
    not (shutil.which("cmake") and shutil.which("cc")),
    reason="libraries of CMake are NOT TESTED: there is no cmake, or no C compiler",
)
@pytest.mark.parametrize("threads", [1, 2])
def test_cmake_builds_a_program_with_the_library(threads: int, tmp_path: Path) -> None:
    made = tfn.export(squashed, X, path=tmp_path / "model", kind="cmake", threads=threads)
    names = ["model/./model.c", "model/model.h", "model/CMakeLists.txt"]
    assert set(made.files) == {tmp_path / name for name in names}
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    main = MAIN.replace("NAME", "model").replace("CAPITAL", "MODEL")
    (tmp_path / "main.c").write_text(main)
    for command in (["-S", ".", "-B", "made"], ["--build", "made"]):
        done = subprocess.run(["cmake", *command], cwd=tmp_path, capture_output=True, text=True)
        assert not done.returncode, done.stdout + done.stderr
    ran = subprocess.run([tmp_path / "made" / "main"], input=X.tobytes(), capture_output=True)
    found = np.frombuffer(ran.stdout, np.float32)
    np.testing.assert_allclose(found[:9].reshape(3, 3), np.tanh(X @ X.T), 1e-6)


@pytest.mark.skipif(not shutil.which("c++"), reason="there is no C++ compiler")
@pytest.mark.parametrize("carried", [False, True])
def test_a_sketch_calls_the_function(carried: bool, tmp_path: Path) -> None:
    def step(state: Any, x: Any) -> Any:
        return state + 1, state * 2 + x

    options: dict[str, Any] = {"carry": 0} if carried else {}
    args = np.full(2, 3, np.float32), np.float32(0)
    made = tfn.export(step, *args, path=tmp_path / "model", kind="arduino", **options)
    folder = tmp_path / "model"
    assert "includes=model.h\n" in (folder / "library.properties").read_text()
    assert made.files[0] == folder / "src" / "model.c"
    text = ARDUINO.replace("SKETCH", "examples/model/model.ino")
    (folder / "main.cpp").write_text(text)
    for command in (
        ["cc", "-O1", *WARNINGS, "-c", "src/model.c", "-o", "model.o"],
        ["c++", "-O1", *WARNINGS, "-Isrc", "main.cpp", "model.o", "-o", "main"],
    ):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert not done.returncode, done.stderr
    said = subprocess.run([folder / "main"], capture_output=True, text=True).stdout
    assert said == "microseconds: .\nmicroseconds: .\n" + ("8\n" if carried else "0\n")


def test_a_folder_is_made_where_there_is_one_to_hold_it(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="none is no folder to write to"):
        tfn.export(squashed, X, path=tmp_path / "none" / "model", kind="cmake")
    with pytest.raises(ArgumentError, match="no kind 'meson'") as error:
        tfn.export(squashed, X, path=tmp_path / "model", kind="meson")
    assert "arduino" in error.value.hint
