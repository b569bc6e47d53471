"""Folders of projects around exported C: a library of CMake, a library of Arduino with a sketch.

NAME/CMakeLists.txt      add_subdirectory(NAME) and target_link_libraries(main NAME)
NAME/library.properties  the folder is copied to `libraries`, or zipped and added by the IDE
NAME/examples/NAME       a sketch that calls the function and prints how long it takes
"""

from __future__ import annotations

from pathlib import Path

from tfn.exporting import carry
from tfn.exporting.signature import Signature

FOLDERS = {"cmake": ".", "arduino": "src"}
"""Kinds of folders, and where the C is in them."""

CMAKE = """\
cmake_minimum_required(VERSION 3.13)
project({name} C)
add_library({name} STATIC {name}.c)
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
set_target_properties({name} PROPERTIES C_STANDARD 99)
if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  target_compile_options({name} PRIVATE -ffp-contract=off)
endif()
{threads}"""
THREADS = """\
find_package(Threads REQUIRED)
target_link_libraries({name} PUBLIC Threads::Threads)
"""
PROPERTIES = """\
name={name}
version=1.0.0
author=tfn
maintainer=tfn
sentence=A function exported by tfn.
paragraph=It needs {arena} bytes of memory besides its arrays, and no other library.
category=Data Processing
url=https://example.org
architectures=*
includes={name}.h
"""
SKETCH = """\
#include <{name}.h>

#define ROOM(type, name, count) static type name##_room[(count) + 1];
#define USE(type, name, count) args.name = name##_room;
{capital}_INPUTS(ROOM)
{capital}_OUTPUTS(ROOM)
static char arena[{capital}_ARENA_BYTES + 1] __attribute__((aligned({capital}_ARENA_ALIGNMENT)));
{state}
void setup() {{
  Serial.begin(115200);{init}
}}

void loop() {{
  {name}_args args = {capital}_ARGS;
  {capital}_INPUTS(USE) // fill the arrays: of an input `x` it is `x_room`
  {capital}_OUTPUTS(USE)
  const unsigned long start = micros();
  const int error = {call};
  const unsigned long time = micros() - start;
  Serial.print(error ? "error " : "microseconds: ");
  Serial.println(error ? (unsigned long)error : time);
  delay(1000);
}}
"""


def texts(kind: str, folder: Path, signature: Signature) -> dict[Path, bytes]:
    """The files of a folder besides the C and its header."""
    name, kept = signature.name, bool(signature.state)
    if kind == "cmake":
        threads = THREADS.format(name=name) if signature.threads > 1 else ""
        return {folder / "CMakeLists.txt": CMAKE.format(name=name, threads=threads).encode()}
    sketch = SKETCH.format(
        name=name,
        capital=name.upper(),
        state=f"static {name}_state state;\n" if kept else "",
        init=f"\n  {name}_init(&state);" if kept else "",
        call=carry.call(signature),
    )
    properties = PROPERTIES.format(name=name, arena=f"{signature.arena_bytes:,}")
    return {
        folder / "library.properties": properties.encode(),
        folder / "examples" / name / f"{name}.ino": sketch.encode(),
    }
