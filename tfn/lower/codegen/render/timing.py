"""Kernel timing: what a driver does where a log of the times of its kernels is kept.

Each thread reserves a row of the log for each launch, and reads the processor's counter after each
kernel and after each barrier: the first difference is the kernel's, the second is waiting.  A
launch that is repeated adds to its row.  Without a log a launch costs a call and a branch more.

    kernel   counter   barrier   counter   kernel ...
             busy                waiting
"""

from __future__ import annotations

from tfn.lower.program import (
    LOG_HEAD_BYTES,
    LOG_OFFSET,
    LOG_ROW,
    LOG_ROW_BYTES,
    LOG_ROWS,
    NUMBER_OFFSET,
)

TIMING = f"""
define internal ptr @begin_timing(ptr %clock, ptr %sync, i64 %thread, i64 %launches) #1 {{
entry:
  %log.at = getelementptr i8, ptr %sync, i64 {LOG_OFFSET}
  %log = load ptr, ptr %log.at
  %none = icmp eq ptr %log, null
  br i1 %none, label %off, label %reserve
off:
  ret ptr null
reserve:
  %first = atomicrmw add ptr %log, i64 %launches monotonic
  %wrapped = and i64 %first, {LOG_ROWS - 1}
  %far = mul i64 %wrapped, {LOG_ROW_BYTES}
  %start = add i64 %far, {LOG_HEAD_BYTES}
  %rows = getelementptr i8, ptr %log, i64 %start
  %bytes = mul i64 %launches, {LOG_ROW_BYTES}
  call void @llvm.memset.p0.i64(ptr %rows, i8 0, i64 %bytes, i1 false)
  %number.at = getelementptr i8, ptr %sync, i64 {NUMBER_OFFSET}
  %number = load i64, ptr %number.at
  %clock1 = getelementptr i64, ptr %clock, i64 1
  %clock2 = getelementptr i64, ptr %clock, i64 2
  %clock3 = getelementptr i64, ptr %clock, i64 3
  %clock4 = getelementptr i64, ptr %clock, i64 4
  store ptr %rows, ptr %clock
  store i64 %number, ptr %clock1
  store i64 %thread, ptr %clock2
  store ptr null, ptr %clock3
  %now = call i64 @llvm.readcyclecounter()
  store i64 %now, ptr %clock4
  ret ptr %clock
}}
define internal void @ran(ptr %clock, i64 %launch) #1 {{
entry:
  %off = icmp eq ptr %clock, null
  br i1 %off, label %done, label %on
on:
  %now = call i64 @llvm.readcyclecounter()
  %last.at = getelementptr i64, ptr %clock, i64 4
  %last = load i64, ptr %last.at
  store i64 %now, ptr %last.at
  %rows = load ptr, ptr %clock
  %far = mul i64 %launch, {LOG_ROW_BYTES}
  %row = getelementptr i8, ptr %rows, i64 %far
  %latest = getelementptr i64, ptr %clock, i64 3
  store ptr %row, ptr %latest
  %count.at = getelementptr i64, ptr %row, i64 {LOG_ROW.index("count")}
  %count = load i64, ptr %count.at
  %more = add i64 %count, 1
  store i64 %more, ptr %count.at
  %is.first = icmp eq i64 %count, 0
  br i1 %is.first, label %head, label %add
head:
  %number.at = getelementptr i64, ptr %clock, i64 1
  %number = load i64, ptr %number.at
  %thread.at = getelementptr i64, ptr %clock, i64 2
  %thread = load i64, ptr %thread.at
  store i64 %number, ptr %row
  %launch.to = getelementptr i64, ptr %row, i64 {LOG_ROW.index("launch")}
  store i64 %launch, ptr %launch.to
  %thread.to = getelementptr i64, ptr %row, i64 {LOG_ROW.index("thread")}
  store i64 %thread, ptr %thread.to
  %begin.to = getelementptr i64, ptr %row, i64 {LOG_ROW.index("begin")}
  store i64 %last, ptr %begin.to
  br label %add
add:
  %busy.at = getelementptr i64, ptr %row, i64 {LOG_ROW.index("busy")}
  %busy = load i64, ptr %busy.at
  %ticks = sub i64 %now, %last
  %sum = add i64 %busy, %ticks
  store i64 %sum, ptr %busy.at
  br label %done
done:
  ret void
}}
define internal void @meet(i64 %threads, ptr %sync, ptr %clock) #1 {{
entry:
  %alone = icmp eq i64 %threads, 1
  br i1 %alone, label %done, label %several
several:
  call void @barrier(i64 %threads, ptr %sync)
  %off = icmp eq ptr %clock, null
  br i1 %off, label %done, label %on
on:
  %now = call i64 @llvm.readcyclecounter()
  %last.at = getelementptr i64, ptr %clock, i64 4
  %last = load i64, ptr %last.at
  store i64 %now, ptr %last.at
  %latest = getelementptr i64, ptr %clock, i64 3
  %row = load ptr, ptr %latest
  %none = icmp eq ptr %row, null
  br i1 %none, label %done, label %add
add:
  %waiting.at = getelementptr i64, ptr %row, i64 {LOG_ROW.index("waiting")}
  %waiting = load i64, ptr %waiting.at
  %ticks = sub i64 %now, %last
  %sum = add i64 %waiting, %ticks
  store i64 %sum, ptr %waiting.at
  br label %done
done:
  ret void
}}
define internal void @resumed(ptr %clock) #1 {{
entry:
  %off = icmp eq ptr %clock, null
  br i1 %off, label %done, label %on
on:
  %now = call i64 @llvm.readcyclecounter()
  %last.at = getelementptr i64, ptr %clock, i64 4
  store i64 %now, ptr %last.at
  br label %done
done:
  ret void
}}
declare i64 @llvm.readcyclecounter()
"""
"""A clock is five words: the rows of this call, the numbers of program and thread, the row of the
latest kernel, and the counter where the time before it has been given to a row."""
