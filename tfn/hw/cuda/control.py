"""Control kernels: loops and branches of a graph, decided on the GPU.

    tfn_loop     an iteration's number, and the addresses that it moves, in the table of a graph
    tfn_test     a loop goes on while a byte is not 0
    tfn_choose   a branch is taken if a clamped int32 is its number

A graph's node for a loop or a branch has a handle, which these kernels set by a function that the
driver itself provides; no library of the toolkit is linked.

Source: CUDA Driver API, conditional graph nodes.
"""

from __future__ import annotations

THREADS = 256
"""Threads of `tfn_loop`: one group, since all have to see the number of the iteration before."""

TEXT = f"""
declare void @cudaGraphSetConditional(i64, i32)
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)

define ptx_kernel void @tfn_loop(ptr addrspace(1) %table, ptr addrspace(1) %rows, i64 %count,
    i64 %pairs, i64 %counter, i64 %step, i64 %trips, i64 %handle) "nvvm.reqntid"="{THREADS}" {{
entry:
  %id = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %thread = zext i32 %id to i64
  %at = getelementptr i64, ptr addrspace(1) %table, i64 %counter
  %before = load i64, ptr addrspace(1) %at, align 8
  %after = add i64 %before, %step
  %first = icmp eq i64 %step, 0
  %number = select i1 %first, i64 0, i64 %after
  %both = shl i64 %pairs, 1
  %words = add i64 %both, 2
  br label %head
head:
  %r = phi i64 [ %thread, %entry ], [ %r1, %store ]
  %more = icmp slt i64 %r, %count
  br i1 %more, label %row, label %end
row:
  %start = mul i64 %r, %words
  %fields = getelementptr i64, ptr addrspace(1) %rows, i64 %start
  %entry.at = load i64, ptr addrspace(1) %fields, align 8
  %field1 = getelementptr i64, ptr addrspace(1) %fields, i64 1
  %origin.at = load i64, ptr addrspace(1) %field1, align 8
  %origin.p = getelementptr i64, ptr addrspace(1) %table, i64 %origin.at
  %origin = load i64, ptr addrspace(1) %origin.p, align 8
  br label %pair
pair:
  %p = phi i64 [ 0, %row ], [ %p1, %add ]
  %total = phi i64 [ %origin, %row ], [ %total1, %add ]
  %some = icmp slt i64 %p, %pairs
  br i1 %some, label %add, label %store
add:
  %p2 = shl i64 %p, 1
  %k = add i64 %p2, 2
  %loop.p = getelementptr i64, ptr addrspace(1) %fields, i64 %k
  %loop = load i64, ptr addrspace(1) %loop.p, align 8
  %stride.p = getelementptr i64, ptr addrspace(1) %loop.p, i64 1
  %stride = load i64, ptr addrspace(1) %stride.p, align 8
  %other.p = getelementptr i64, ptr addrspace(1) %table, i64 %loop
  %other = load i64, ptr addrspace(1) %other.p, align 8
  %mine = icmp eq i64 %loop, %counter
  %i = select i1 %mine, i64 %number, i64 %other
  %moved = mul i64 %i, %stride
  %total1 = add i64 %total, %moved
  %p1 = add i64 %p, 1
  br label %pair
store:
  %entry.p = getelementptr i64, ptr addrspace(1) %table, i64 %entry.at
  store i64 %total, ptr addrspace(1) %entry.p, align 8
  %r1 = add i64 %r, {THREADS}
  br label %head
end:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %is.first = icmp eq i64 %thread, 0
  br i1 %is.first, label %write, label %done
write:
  store i64 %number, ptr addrspace(1) %at, align 8
  %counts = icmp sge i64 %trips, 0
  br i1 %counts, label %set, label %done
set:
  %go = icmp slt i64 %number, %trips
  %word = zext i1 %go to i32
  call void @cudaGraphSetConditional(i64 %handle, i32 %word)
  br label %done
done:
  ret void
}}

define ptx_kernel void @tfn_test(ptr addrspace(1) %operands, i64 %handle) "nvvm.reqntid"="1" {{
entry:
  %p = load ptr addrspace(1), ptr addrspace(1) %operands, align 8
  %byte = load i8, ptr addrspace(1) %p, align 1
  %go = icmp ne i8 %byte, 0
  %word = zext i1 %go to i32
  call void @cudaGraphSetConditional(i64 %handle, i32 %word)
  ret void
}}

define ptx_kernel void @tfn_choose(ptr addrspace(1) %operands, i32 %branch, i32 %last,
    i64 %handle) "nvvm.reqntid"="1" {{
entry:
  %p = load ptr addrspace(1), ptr addrspace(1) %operands, align 8
  %index = load i32, ptr addrspace(1) %p, align 4
  %negative = icmp slt i32 %index, 0
  %low = select i1 %negative, i32 0, i32 %index
  %high = icmp sgt i32 %low, %last
  %clamped = select i1 %high, i32 %last, i32 %low
  %go = icmp eq i32 %clamped, %branch
  %word = zext i1 %go to i32
  call void @cudaGraphSetConditional(i64 %handle, i32 %word)
  ret void
}}
"""
"""LLVM IR.  A row of `tfn_loop` is an entry of the table, the word that holds its address in the
first iteration, and pairs of a counter and the bytes by which each iteration moves the entry."""
