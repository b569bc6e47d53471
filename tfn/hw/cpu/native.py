"""Dispatch in native code, as LLVM IR: what a call does between Python and a program.

Here are buffers and the words that native code knows; `trees` takes arguments apart and puts
results together; `entry` is the body of every compiled function.

A buffer is an object of a type of our own, with its address at a fixed offset.  A dead one goes to
the shelf of its size with its memory, and comes from there alive again.  What must be known of one
program is a table of words, its plan; so the text is compiled once for all programs.

The interpreter's lock guards all of it.

Code for functions that are called seldom, or wait for the interpreter anyway, is selected without
care (`#0`): that takes a third of the time.
"""

from __future__ import annotations

from tfn.hw.cpu import entry, trees

# Offsets in a Buffer: what every object begins with, then our own.
ADDRESS, SIZE, OWNER, BLOCK, NEXT, SHELF, EXCLUSIVE, BUFFER_BYTES = 16, 24, 32, 40, 48, 56, 64, 72
ITEMS = 24  # where those of a tuple begin

SHELVES = 256
STATE = (
    "enabled",
    "live",
    "peak",
    "kept",
    "keep_limit",
    "limit",
    "big",
    "buffer_type",
    "array_type",
    "list_type",
    "tuple_type",
    "tuple_new",
    "dict_type",
    "none",
    "true",
    "refusal",
    "at_kind",
    "at_weak_type",
    "at_buffer",
    "at_shape",
    "at_dtype",
    "at_uop",
    "at_trace",
    "at_known",
    "on_give",
    "on_free",
)
"""The words of `state` in order; the shelves come after them."""

PLAN = (
    "run",
    "call",
    "pool",
    "arguments",
    "leaves",
    "inputs",
    "outputs",
    "work_bytes",
    "work_block",
    "work_shelf",
    "long",
    "counted",
    "takes",
    "gives",
    "input_rows",
    "captured",
    "output_rows",
)
"""The words of a plan in order."""

SELDOM = "\nattributes #0 = {{ optnone noinline }}\n"

INPUT_ROW = ("kind", "weak", "donated")
OUTPUT_ROW = ("shelf", "block", "size", "alias", "over", "kind", "shape", "dtype", "weak")

LEAF, NOTHING, LIST, TUPLE, DICT, FIELDS = range(6)
"""How trees are written in `takes` and `gives`: LEAF i; NOTHING; LIST n, then n trees; TUPLE class
n, then n trees; DICT n, then n times a key and a tree; FIELDS class, then m and m times a name and
a fixed value, then n and n times a name and a tree."""

_BUFFERS = """
@state = global [{words} x i64] zeroinitializer, align 64

; A buffer from its shelf; null if that is empty or the limit would be passed.
define ptr @take(ptr %shelf, i64 %block_bytes, i64 %size_bytes) {{
  %block = load ptr, ptr %shelf
  %empty = icmp eq ptr %block, null
  br i1 %empty, label %none, label %found
found:
  %live = load i64, ptr {live}
  %sum = add i64 %live, %block_bytes
  %limit = load i64, ptr {limit}
  %over = icmp ugt i64 %sum, %limit
  br i1 %over, label %none, label %fits
fits:
  %next_at = getelementptr i8, ptr %block, i64 {NEXT}
  %next = load ptr, ptr %next_at
  store ptr %next, ptr %shelf
  store i64 %sum, ptr {live}
  %peak = load i64, ptr {peak}
  %higher = icmp ugt i64 %sum, %peak
  %peak1 = select i1 %higher, i64 %sum, i64 %peak
  store i64 %peak1, ptr {peak}
  %kept = load i64, ptr {kept}
  %kept1 = sub i64 %kept, %block_bytes
  store i64 %kept1, ptr {kept}
  store i64 1, ptr %block
  %size_at = getelementptr i8, ptr %block, i64 {SIZE}
  store i64 %size_bytes, ptr %size_at
  %exclusive_at = getelementptr i8, ptr %block, i64 {EXCLUSIVE}
  store i8 1, ptr %exclusive_at
{told_of_give}  ret ptr %block
none:
  ret ptr null
}}

define void @shelve(ptr %buffer, i64 %block_bytes) {{
  %shelf_at = getelementptr i8, ptr %buffer, i64 {SHELF}
  %shelf = load ptr, ptr %shelf_at
  %first = load ptr, ptr %shelf
  %next_at = getelementptr i8, ptr %buffer, i64 {NEXT}
  store ptr %first, ptr %next_at
  store ptr %buffer, ptr %shelf
  %kept = load i64, ptr {kept}
  %kept1 = add i64 %kept, %block_bytes
  store i64 %kept1, ptr {kept}
  ret void
}}

define void @free(ptr %buffer) {{
  %type_at = getelementptr i8, ptr %buffer, i64 8
  %type = load ptr, ptr %type_at
  call void @PyObject_Free(ptr %buffer)
  call void @Py_DecRef(ptr %type)
  ret void
}}

; The end of a buffer: of one with a block, that goes to its shelf, or if there is enough, home.
define void @dealloc(ptr %buffer) {{
  %block_at = getelementptr i8, ptr %buffer, i64 {BLOCK}
  %block_bytes = load i64, ptr %block_at
  %adopted = icmp eq i64 %block_bytes, 0
  br i1 %adopted, label %disown, label %pooled
disown:
  %owner_at = getelementptr i8, ptr %buffer, i64 {OWNER}
  %owner = load ptr, ptr %owner_at
  call void @Py_DecRef(ptr %owner)
  call void @free(ptr %buffer)
  ret void
pooled:
{told_of_free}  %live = load i64, ptr {live}
  %live1 = sub i64 %live, %block_bytes
  store i64 %live1, ptr {live}
  %kept = load i64, ptr {kept}
  %sum = add i64 %kept, %block_bytes
  %keep_limit = load i64, ptr {keep_limit}
  %full = icmp ugt i64 %sum, %keep_limit
  %big_bytes = load i64, ptr {big}
  %big = icmp ugt i64 %block_bytes, %big_bytes
  %too_much = and i1 %full, %big
  br i1 %too_much, label %home, label %keep
home:
  %address_at = getelementptr i8, ptr %buffer, i64 {ADDRESS}
  %address = load ptr, ptr %address_at
  call i32 @munmap(ptr %address, i64 %block_bytes)
  call void @free(ptr %buffer)
  ret void
keep:
  call void @shelve(ptr %buffer, i64 %block_bytes)
  ret void
}}

; What Python's buffer protocol asks: the memory, read-only, which is no longer ours alone.
define i32 @getbuffer(ptr %buffer, ptr %view, i32 %flags) #0 {{
  %exclusive_at = getelementptr i8, ptr %buffer, i64 {EXCLUSIVE}
  store i8 0, ptr %exclusive_at
  %address_at = getelementptr i8, ptr %buffer, i64 {ADDRESS}
  %address = load ptr, ptr %address_at
  %size_at = getelementptr i8, ptr %buffer, i64 {SIZE}
  %size = load i64, ptr %size_at
  %status = call i32 @PyBuffer_FillInfo(
      ptr %view, ptr %buffer, ptr %address, i64 %size, i32 1, i32 %flags)
  ret i32 %status
}}

define i64 @integer(ptr %arguments, i64 %at) #0 {{
  %place = getelementptr ptr, ptr %arguments, i64 %at
  %object = load ptr, ptr %place
  %value = call i64 @PyLong_AsSsize_t(ptr %object)
  ret i64 %value
}}

define ptr @shelf(ptr %arguments, i64 %at) #0 {{
  %number = call i64 @integer(ptr %arguments, i64 %at)
  %shelf = getelementptr i64, ptr {shelves}, i64 %number
  ret ptr %shelf
}}

define ptr @make(i64 %address) #0 {{
  %type = load ptr, ptr {buffer_type}
  %buffer = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %failed = icmp eq ptr %buffer, null
  br i1 %failed, label %exit, label %fill
fill:
  %address_at = getelementptr i8, ptr %buffer, i64 {ADDRESS}
  store i64 %address, ptr %address_at
  br label %exit
exit:
  ret ptr %buffer
}}

; adopt(address, size, owner): a buffer of memory that its owner keeps alive.
define ptr @adopt(ptr %self, ptr %arguments, i64 %count) #0 {{
  %address = call i64 @integer(ptr %arguments, i64 0)
  %size = call i64 @integer(ptr %arguments, i64 1)
  %owner_place = getelementptr ptr, ptr %arguments, i64 2
  %owner = load ptr, ptr %owner_place
  %buffer = call ptr @make(i64 %address)
  %failed = icmp eq ptr %buffer, null
  br i1 %failed, label %exit, label %fill
fill:
  %size_at = getelementptr i8, ptr %buffer, i64 {SIZE}
  store i64 %size, ptr %size_at
  %owner_at = getelementptr i8, ptr %buffer, i64 {OWNER}
  store ptr %owner, ptr %owner_at
  call void @Py_IncRef(ptr %owner)
  br label %exit
exit:
  ret ptr %buffer
}}

define ptr @nothing() #0 {{
  %none = load ptr, ptr {none}
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}}

; provide(address, block_bytes, shelf): new memory for a shelf.
define ptr @provide(ptr %self, ptr %arguments, i64 %count) #0 {{
  %address = call i64 @integer(ptr %arguments, i64 0)
  %block_bytes = call i64 @integer(ptr %arguments, i64 1)
  %shelf = call ptr @shelf(ptr %arguments, i64 2)
  %buffer = call ptr @make(i64 %address)
  %failed = icmp eq ptr %buffer, null
  br i1 %failed, label %exit, label %fill
fill:
  %block_at = getelementptr i8, ptr %buffer, i64 {BLOCK}
  store i64 %block_bytes, ptr %block_at
  %shelf_at = getelementptr i8, ptr %buffer, i64 {SHELF}
  store ptr %shelf, ptr %shelf_at
  call void @shelve(ptr %buffer, i64 %block_bytes)
  %none = call ptr @nothing()
  ret ptr %none
exit:
  ret ptr null
}}

; allocate(size, block_bytes, shelf[, bytes]): a buffer, with these contents if any are given; or
; None if there is none at hand.
define ptr @allocate(ptr %self, ptr %arguments, i64 %count) #0 {{
  %size = call i64 @integer(ptr %arguments, i64 0)
  %block_bytes = call i64 @integer(ptr %arguments, i64 1)
  %shelf = call ptr @shelf(ptr %arguments, i64 2)
  %buffer = call ptr @take(ptr %shelf, i64 %block_bytes, i64 %size)
  %failed = icmp eq ptr %buffer, null
  br i1 %failed, label %none, label %taken
none:
  %answer = call ptr @nothing()
  ret ptr %answer
taken:
  %filled = icmp eq i64 %count, 4
  br i1 %filled, label %fill, label %exit
fill:
  %address_at = getelementptr i8, ptr %buffer, i64 {ADDRESS}
  %address = load ptr, ptr %address_at
  %data_place = getelementptr ptr, ptr %arguments, i64 3
  %data = load ptr, ptr %data_place
  %bytes = call ptr @PyBytes_AsString(ptr %data)
  call void @llvm.memcpy.p0.p0.i64(ptr %address, ptr %bytes, i64 %size, i1 false)
  br label %exit
exit:
  ret ptr %buffer
}}

; send_home(block_bytes, shelf): what is on the shelf goes back to the system.
define ptr @send_home(ptr %self, ptr %arguments, i64 %count) #0 {{
entry:
  %block_bytes = call i64 @integer(ptr %arguments, i64 0)
  %shelf = call ptr @shelf(ptr %arguments, i64 1)
  br label %loop
loop:
  %buffer = load ptr, ptr %shelf
  %end = icmp eq ptr %buffer, null
  br i1 %end, label %exit, label %one
one:
  %next_at = getelementptr i8, ptr %buffer, i64 {NEXT}
  %next = load ptr, ptr %next_at
  store ptr %next, ptr %shelf
  %kept = load i64, ptr {kept}
  %kept1 = sub i64 %kept, %block_bytes
  store i64 %kept1, ptr {kept}
  %address_at = getelementptr i8, ptr %buffer, i64 {ADDRESS}
  %address = load ptr, ptr %address_at
  call i32 @munmap(ptr %address, i64 %block_bytes)
  call void @free(ptr %buffer)
  br label %loop
exit:
  %none = call ptr @nothing()
  ret ptr %none
}}

declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare void @PyObject_Free(ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare i64 @PyLong_AsSsize_t(ptr)
declare ptr @PyBytes_AsString(ptr)
declare i32 @PyBuffer_FillInfo(ptr, ptr, ptr, i64, i32, i32)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i32 @munmap(ptr, i64)
"""


# With guards, Python is told of each block that is given out or freed.  Other threads may run then,
# so that a call holds what it was given from the beginning.  A buffer may die while an error is on
# its way, which must not be lost.
_TOLD_OF_GIVE = """
  %given_at = getelementptr i8, ptr %block, i64 {ADDRESS}
  %given = load i64, ptr %given_at
  call void @tell(ptr {on_give}, i64 %given, i64 %block_bytes, i64 %size_bytes)
"""
_TOLD_OF_FREE = """
  %freed_at = getelementptr i8, ptr %buffer, i64 {ADDRESS}
  %freed = load i64, ptr %freed_at
  call void @tell(ptr {on_free}, i64 %freed, i64 %block_bytes, i64 0)
"""
_TELL = """
@numbers = private constant [4 x i8] c"LLL\\00"

define void @tell(ptr %word, i64 %address, i64 %block_bytes, i64 %size_bytes) #0 {{
  %hook = load ptr, ptr %word
  %closed = icmp eq ptr %hook, null
  br i1 %closed, label %exit, label %call
call:
  %type = alloca ptr
  %value = alloca ptr
  %traceback = alloca ptr
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %traceback)
  %result = call ptr (ptr, ptr, ...) @PyObject_CallFunction(
      ptr %hook, ptr @numbers, i64 %address, i64 %block_bytes, i64 %size_bytes)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %report, label %drop
report:
  %interrupt = load ptr, ptr @PyExc_KeyboardInterrupt
  %interrupted = call i32 @PyErr_ExceptionMatches(ptr %interrupt)
  %theirs = icmp ne i32 %interrupted, 0
  br i1 %theirs, label %pass_on, label %write
pass_on:
  call void @PyErr_Clear()
  call void @PyErr_SetInterrupt()
  br label %restore
write:
  call void @PyErr_WriteUnraisable(ptr %hook)
  br label %restore
drop:
  call void @Py_DecRef(ptr %result)
  br label %restore
restore:
  %type_before = load ptr, ptr %type
  %value_before = load ptr, ptr %value
  %traceback_before = load ptr, ptr %traceback
  call void @PyErr_Restore(ptr %type_before, ptr %value_before, ptr %traceback_before)
  br label %exit
exit:
  ret void
}}

@PyExc_KeyboardInterrupt = external global ptr
declare i32 @PyErr_ExceptionMatches(ptr)
declare void @PyErr_SetInterrupt()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare void @PyErr_WriteUnraisable(ptr)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
"""


def text(guarded: bool = False) -> str:
    """LLVM IR of the functions behind the builtins, and of `state`."""

    def word(at: int) -> str:
        return f"getelementptr (i8, ptr @state, i64 {8 * at})"

    names: dict[str, object] = {name: word(at) for at, name in enumerate(STATE)}
    names |= {f"plan_{name}": at for at, name in enumerate(PLAN)}
    names |= {f"in_{name}": at for at, name in enumerate(INPUT_ROW)}
    names |= {f"out_{name}": at for at, name in enumerate(OUTPUT_ROW)}
    told = {"give": _TOLD_OF_GIVE, "free": _TOLD_OF_FREE}
    names |= {
        f"told_of_{what}": line.format(ADDRESS=ADDRESS, **names) if guarded else ""
        for what, line in told.items()
    }
    names |= {
        f"{what}_objects": f"  call void @{what}(ptr %objects, i64 %counted)\n" * guarded
        for what in ("hold", "release")
    }
    parts = (_BUFFERS, trees.TEXT, entry.TEXT, _TELL if guarded else "", SELDOM)
    return "".join(parts).format(
        ADDRESS=ADDRESS,
        ITEMS=ITEMS,
        SIZE=SIZE,
        OWNER=OWNER,
        BLOCK=BLOCK,
        NEXT=NEXT,
        SHELF=SHELF,
        EXCLUSIVE=EXCLUSIVE,
        NOTHING=NOTHING,
        LIST=LIST,
        TUPLE=TUPLE,
        DICT=DICT,
        FIELDS=FIELDS,
        words=len(STATE) + SHELVES,
        shelves=word(len(STATE)),
        input_words=len(INPUT_ROW),
        output_words=len(OUTPUT_ROW),
        **names,
    )
