; Native buffers, and the free lists from which their blocks come.
;
; A buffer is a Python object; `native.BUFFER` has the offsets of its fields.  One that dies keeps
; its block and goes to the free list of its size class: a list linked through the field `next`,
; whose head is a word behind those of `state`.
;
; Functions:
;   use                 writes a row of the log of uses, which is on while a trace records
;   add_use             builtin (what, number, buffer): the same, for Python
;   pop_block           a buffer from a free list, alive again
;   push_block          a buffer back to its free list
;   free_object         the object itself back to Python
;   dealloc             the slot Py_tp_dealloc: the end of a buffer
;   getbuffer           the slot Py_bf_getbuffer: the buffer protocol
;   integer_argument    an argument of a builtin as an integer
;   free_list_argument  the same as the head of the free list of this number
;   new_buffer          a new object, without block or owner
;   new_none            a new reference to None
;   adopt               builtin (address, size, owner): a buffer of memory of the owner
;   provide             builtin (address, block_bytes, free_list): a new block for a free list
;   allocate            builtin (size, block_bytes, free_list[, bytes]): a buffer, with this content
;                       if any is given; None if the free list is empty or the limit is reached
;   unmap_free          builtin (block_bytes, free_list): returns the blocks of a list to the system

@state = global [$STATE_WORDS$ x i64] zeroinitializer, align 64

define void @use(ptr %ring, i64 %what, i64 %number, ptr %buffer, i64 %ticks) {
  %count = load i64, ptr $STATE.use_count$
  %next = add i64 %count, 1
  store i64 %next, ptr $STATE.use_count$
  %row = and i64 %count, $USE_MASK$
  %word = mul i64 %row, $USE_WORDS$
  %what_to = getelementptr i64, ptr %ring, i64 %word
  store i64 %what, ptr %what_to
  %number_to = getelementptr i64, ptr %what_to, i64 1
  store i64 %number, ptr %number_to
  %buffer_to = getelementptr i64, ptr %what_to, i64 2
  store ptr %buffer, ptr %buffer_to
  %size_at = getelementptr i8, ptr %buffer, i64 $BUFFER.size_bytes$
  %size = load i64, ptr %size_at
  %size_to = getelementptr i64, ptr %what_to, i64 3
  store i64 %size, ptr %size_to
  %ticks_to = getelementptr i64, ptr %what_to, i64 4
  store i64 %ticks, ptr %ticks_to
  ret void
}

; Null if the list is empty, or the limit would be passed.
define ptr @pop_block(ptr %free_list, i64 %block_bytes, i64 %size_bytes) {
  %block = load ptr, ptr %free_list
  %empty = icmp eq ptr %block, null
  br i1 %empty, label %none, label %usable
usable:
  %live_bytes = load i64, ptr $STATE.live_bytes$
  %live_after = add i64 %live_bytes, %block_bytes
  %limit_bytes = load i64, ptr $STATE.limit_bytes$
  %over = icmp ugt i64 %live_after, %limit_bytes
  br i1 %over, label %none, label %fits
fits:
  %next_at = getelementptr i8, ptr %block, i64 $BUFFER.next$
  %next = load ptr, ptr %next_at
  store ptr %next, ptr %free_list
  store i64 %live_after, ptr $STATE.live_bytes$
  %peak_bytes = load i64, ptr $STATE.peak_bytes$
  %higher = icmp ugt i64 %live_after, %peak_bytes
  %peak_after = select i1 %higher, i64 %live_after, i64 %peak_bytes
  store i64 %peak_after, ptr $STATE.peak_bytes$
  %free_bytes = load i64, ptr $STATE.free_bytes$
  %free_after = sub i64 %free_bytes, %block_bytes
  store i64 %free_after, ptr $STATE.free_bytes$
  store i64 1, ptr %block  ; the count of references
  %size_at = getelementptr i8, ptr %block, i64 $BUFFER.size_bytes$
  store i64 %size_bytes, ptr %size_at
  %exclusive_at = getelementptr i8, ptr %block, i64 $BUFFER.exclusive$
  store i8 1, ptr %exclusive_at
?GUARDED  %address_at = getelementptr i8, ptr %block, i64 $BUFFER.address$
?GUARDED  %address = load i64, ptr %address_at
?GUARDED  call void @call_hook(
?GUARDED      ptr $STATE.on_allocate$, i64 %address, i64 %block_bytes, i64 %size_bytes)
  %use_ring = load ptr, ptr $STATE.use_ring$
  %unlogged = icmp eq ptr %use_ring, null
  br i1 %unlogged, label %exit, label %log_use
log_use:
  %ticks = call i64 @llvm.readcyclecounter()
  call void @use(ptr %use_ring, i64 $USE.allocate$, i64 0, ptr %block, i64 %ticks)
  br label %exit
exit:
  ret ptr %block
none:
  ret ptr null
}

define void @push_block(ptr %buffer, i64 %block_bytes) {
  %free_list_at = getelementptr i8, ptr %buffer, i64 $BUFFER.free_list$
  %free_list = load ptr, ptr %free_list_at
  %first = load ptr, ptr %free_list
  %next_at = getelementptr i8, ptr %buffer, i64 $BUFFER.next$
  store ptr %first, ptr %next_at
  store ptr %buffer, ptr %free_list
  %free_bytes = load i64, ptr $STATE.free_bytes$
  %free_after = add i64 %free_bytes, %block_bytes
  store i64 %free_after, ptr $STATE.free_bytes$
  ret void
}

define void @free_object(ptr %buffer) {
  %type_at = getelementptr i8, ptr %buffer, i64 8
  %type = load ptr, ptr %type_at
  call void @PyObject_Free(ptr %buffer)
  call void @Py_DecRef(ptr %type)
  ret void
}

; A buffer without a block was adopted, and releases its owner.  Large blocks go back to the system
; while free lists hold more than their limit; small ones are parts of slabs, which stay.
define void @dealloc(ptr %buffer) {
  %use_ring = load ptr, ptr $STATE.use_ring$
  %unlogged = icmp eq ptr %use_ring, null
  br i1 %unlogged, label %find_block, label %log_use
log_use:
  %ticks = call i64 @llvm.readcyclecounter()
  call void @use(ptr %use_ring, i64 $USE.free$, i64 0, ptr %buffer, i64 %ticks)
  br label %find_block
find_block:
  %block_at = getelementptr i8, ptr %buffer, i64 $BUFFER.block_bytes$
  %block_bytes = load i64, ptr %block_at
  %adopted = icmp eq i64 %block_bytes, 0
  br i1 %adopted, label %release_owner, label %pooled
release_owner:
  %owner_at = getelementptr i8, ptr %buffer, i64 $BUFFER.owner$
  %owner = load ptr, ptr %owner_at
  call void @Py_DecRef(ptr %owner)
  call void @free_object(ptr %buffer)
  ret void
pooled:
?GUARDED  %freed_address_at = getelementptr i8, ptr %buffer, i64 $BUFFER.address$
?GUARDED  %freed_address = load i64, ptr %freed_address_at
?GUARDED  call void @call_hook(ptr $STATE.on_free$, i64 %freed_address, i64 %block_bytes, i64 0)
  %live_bytes = load i64, ptr $STATE.live_bytes$
  %live_after = sub i64 %live_bytes, %block_bytes
  store i64 %live_after, ptr $STATE.live_bytes$
  %free_bytes = load i64, ptr $STATE.free_bytes$
  %free_after = add i64 %free_bytes, %block_bytes
  %free_limit = load i64, ptr $STATE.free_limit_bytes$
  %full = icmp ugt i64 %free_after, %free_limit
  %large_bytes = load i64, ptr $STATE.large_bytes$
  %large = icmp ugt i64 %block_bytes, %large_bytes
  %too_much = and i1 %full, %large
  br i1 %too_much, label %unmap, label %keep
unmap:
  %address_at = getelementptr i8, ptr %buffer, i64 $BUFFER.address$
  %address = load ptr, ptr %address_at
  %returns = load ptr, ptr $STATE.unmap$
  call i32 %returns(ptr %address, i64 %block_bytes)
  call void @free_object(ptr %buffer)
  ret void
keep:
?QUEUED  %started = load i64, ptr $STATE.started$
?QUEUED  %freed_after_at = getelementptr i8, ptr %buffer, i64 $BUFFER.freed_after$
?QUEUED  store i64 %started, ptr %freed_after_at
  call void @push_block(ptr %buffer, i64 %block_bytes)
  ret void
}

; The memory, read-only.  It is no longer exclusive: NumPy may keep a view of it.
define i32 @getbuffer(ptr %buffer, ptr %view, i32 %flags) #0 {
  %exclusive_at = getelementptr i8, ptr %buffer, i64 $BUFFER.exclusive$
  store i8 0, ptr %exclusive_at
  %address_at = getelementptr i8, ptr %buffer, i64 $BUFFER.address$
  %address = load ptr, ptr %address_at
  %size_at = getelementptr i8, ptr %buffer, i64 $BUFFER.size_bytes$
  %size = load i64, ptr %size_at
  %status = call i32 @PyBuffer_FillInfo(
      ptr %view, ptr %buffer, ptr %address, i64 %size, i32 1, i32 %flags)
  ret i32 %status
}

define i64 @integer_argument(ptr %arguments, i64 %at) #0 {
  %argument_at = getelementptr ptr, ptr %arguments, i64 %at
  %object = load ptr, ptr %argument_at
  %value = call i64 @PyLong_AsSsize_t(ptr %object)
  ret i64 %value
}

define ptr @free_list_argument(ptr %arguments, i64 %at) #0 {
  %number = call i64 @integer_argument(ptr %arguments, i64 %at)
  %free_list = getelementptr i64, ptr $FREE_LISTS$, i64 %number
  ret ptr %free_list
}

define ptr @new_buffer(i64 %address) #0 {
  %type = load ptr, ptr $STATE.buffer_type$
  %buffer = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %failed = icmp eq ptr %buffer, null
  br i1 %failed, label %exit, label %fill
fill:
  %address_at = getelementptr i8, ptr %buffer, i64 $BUFFER.address$
  store i64 %address, ptr %address_at
  br label %exit
exit:
  ret ptr %buffer
}

define ptr @adopt(ptr %self, ptr %arguments, i64 %count) #0 {
  %address = call i64 @integer_argument(ptr %arguments, i64 0)
  %size = call i64 @integer_argument(ptr %arguments, i64 1)
  %owner_argument_at = getelementptr ptr, ptr %arguments, i64 2
  %owner = load ptr, ptr %owner_argument_at
  %buffer = call ptr @new_buffer(i64 %address)
  %failed = icmp eq ptr %buffer, null
  br i1 %failed, label %exit, label %fill
fill:
  %size_at = getelementptr i8, ptr %buffer, i64 $BUFFER.size_bytes$
  store i64 %size, ptr %size_at
  %owner_at = getelementptr i8, ptr %buffer, i64 $BUFFER.owner$
  store ptr %owner, ptr %owner_at
  call void @Py_IncRef(ptr %owner)
  br label %exit
exit:
  ret ptr %buffer
}

define ptr @new_none() #0 {
  %none = load ptr, ptr $STATE.none$
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}

define ptr @provide(ptr %self, ptr %arguments, i64 %count) #0 {
  %address = call i64 @integer_argument(ptr %arguments, i64 0)
  %block_bytes = call i64 @integer_argument(ptr %arguments, i64 1)
  %free_list = call ptr @free_list_argument(ptr %arguments, i64 2)
  %buffer = call ptr @new_buffer(i64 %address)
  %failed = icmp eq ptr %buffer, null
  br i1 %failed, label %exit, label %fill
fill:
  %block_at = getelementptr i8, ptr %buffer, i64 $BUFFER.block_bytes$
  store i64 %block_bytes, ptr %block_at
  %free_list_at = getelementptr i8, ptr %buffer, i64 $BUFFER.free_list$
  store ptr %free_list, ptr %free_list_at
  call void @push_block(ptr %buffer, i64 %block_bytes)
  %none = call ptr @new_none()
  ret ptr %none
exit:
  ret ptr null
}

define ptr @allocate(ptr %self, ptr %arguments, i64 %count) #0 {
  %size = call i64 @integer_argument(ptr %arguments, i64 0)
  %block_bytes = call i64 @integer_argument(ptr %arguments, i64 1)
  %free_list = call ptr @free_list_argument(ptr %arguments, i64 2)
  %buffer = call ptr @pop_block(ptr %free_list, i64 %block_bytes, i64 %size)
  %failed = icmp eq ptr %buffer, null
  br i1 %failed, label %none, label %allocated
none:
  %no_block = call ptr @new_none()
  ret ptr %no_block
allocated:
  %filled = icmp eq i64 %count, 4
  br i1 %filled, label %fill, label %exit
fill:
  %address_at = getelementptr i8, ptr %buffer, i64 $BUFFER.address$
  %address = load ptr, ptr %address_at
  %data_argument_at = getelementptr ptr, ptr %arguments, i64 3
  %data = load ptr, ptr %data_argument_at
  %bytes = call ptr @PyBytes_AsString(ptr %data)
  call void @llvm.memcpy.p0.p0.i64(ptr %address, ptr %bytes, i64 %size, i1 false)
  br label %exit
exit:
  ret ptr %buffer
}

define ptr @add_use(ptr %self, ptr %arguments, i64 %count) #0 {
  %what = call i64 @integer_argument(ptr %arguments, i64 0)
  %number = call i64 @integer_argument(ptr %arguments, i64 1)
  %buffer_at = getelementptr ptr, ptr %arguments, i64 2
  %buffer = load ptr, ptr %buffer_at
  %ring = load ptr, ptr $STATE.use_ring$
  %unlogged = icmp eq ptr %ring, null
  br i1 %unlogged, label %exit, label %log
log:
  %ticks = call i64 @llvm.readcyclecounter()
  call void @use(ptr %ring, i64 %what, i64 %number, ptr %buffer, i64 %ticks)
  br label %exit
exit:
  %none = call ptr @new_none()
  ret ptr %none
}

define ptr @unmap_free(ptr %self, ptr %arguments, i64 %count) #0 {
entry:
  %block_bytes = call i64 @integer_argument(ptr %arguments, i64 0)
  %free_list = call ptr @free_list_argument(ptr %arguments, i64 1)
  br label %loop
loop:
  %buffer = load ptr, ptr %free_list
  %end = icmp eq ptr %buffer, null
  br i1 %end, label %exit, label %unmap
unmap:
  %next_at = getelementptr i8, ptr %buffer, i64 $BUFFER.next$
  %next = load ptr, ptr %next_at
  store ptr %next, ptr %free_list
  %free_bytes = load i64, ptr $STATE.free_bytes$
  %free_after = sub i64 %free_bytes, %block_bytes
  store i64 %free_after, ptr $STATE.free_bytes$
  %address_at = getelementptr i8, ptr %buffer, i64 $BUFFER.address$
  %address = load ptr, ptr %address_at
  %returns = load ptr, ptr $STATE.unmap$
  call i32 %returns(ptr %address, i64 %block_bytes)
  call void @free_object(ptr %buffer)
  br label %loop
exit:
  %none = call ptr @new_none()
  ret ptr %none
}

declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare void @PyObject_Free(ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare i64 @PyLong_AsSsize_t(ptr)
declare ptr @PyBytes_AsString(ptr)
declare i32 @PyBuffer_FillInfo(ptr, ptr, ptr, i64, i32, i32)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Selected without care: these run seldom, or wait for the interpreter anyway.
attributes #0 = { optnone noinline }
