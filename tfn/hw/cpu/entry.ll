; The entry of every compiled function: one builtin from the user's arguments to the results.
;
;   gather    arrays are gathered from the arguments
;   check     each is compared by the identity of what describes it
;   allocate  outputs and working memory come from their free lists
;   run       the program runs, without the interpreter's lock if it takes long
;   donate    donated arrays lose their buffers, before another thread could see them change
;   build     the arrays of the results are made
;
; It answers NotImplemented, and has done nothing, when an argument does not fit or a free list is
; empty: then Python runs the program, or raises an error.
;
; Functions:
;   call     the builtin; its `self` is a tuple that begins with the holder of the plan
;   log      writes a row of the call log: the program, its begin, its end and the number of calls;
;            while a trace records, it logs what the program read and wrote, too
;   log_uses   of the buffers of a call: rows of the log of uses
;   read_counter  the processor's counter, for Python
;   refusal  a new reference to NotImplemented
;   hold     takes a reference to each of some objects
;   release  drops a reference to each of some objects

define ptr @call(ptr %self, ptr %arguments, i64 %count) {
entry:
  %holder_at = getelementptr i8, ptr %self, i64 $TUPLE_ITEMS$
  %holder = load ptr, ptr %holder_at
  %plan_at = getelementptr i8, ptr %holder, i64 $BUFFER.address$
  %plan = load ptr, ptr %plan_at
  %expected_at = getelementptr i64, ptr %plan, i64 $PLAN.argument_count$
  %expected = load i64, ptr %expected_at
  %same = icmp eq i64 %expected, %count
  %enabled = load i64, ptr $STATE.enabled$
  %on = icmp ne i64 %enabled, 0
  %ready = and i1 %same, %on
  br i1 %ready, label %begin, label %refuse_at_once
begin:
  %leaves_at = getelementptr i64, ptr %plan, i64 $PLAN.leaf_count$
  %leaves = load i64, ptr %leaves_at
  %inputs_at = getelementptr i64, ptr %plan, i64 $PLAN.input_count$
  %inputs = load i64, ptr %inputs_at
  %outputs_at = getelementptr i64, ptr %plan, i64 $PLAN.output_count$
  %outputs = load i64, ptr %outputs_at
  %unlocked_at = getelementptr i64, ptr %plan, i64 $PLAN.unlocked$
  %unlocked_word = load i64, ptr %unlocked_at
  %is_unlocked = icmp ne i64 %unlocked_word, 0
  %all = add i64 %inputs, %outputs
  %cursor = alloca ptr
  %pool_place = alloca ptr
  %both = shl i64 %all, 1
  %words = add i64 %inputs, %both
  %large = icmp ugt i64 %words, $STACK_WORDS$
  br i1 %large, label %heap, label %stack
stack:
  %on_stack = alloca i64, i64 %words
  br label %scratch
heap:
  %scratch_bytes = shl i64 %words, 3
  %on_heap = call ptr @PyMem_RawMalloc(i64 %scratch_bytes)
  %no_heap = icmp eq ptr %on_heap, null
  br i1 %no_heap, label %refuse_at_once, label %scratch
scratch:
  %objects = phi ptr [%on_stack, %stack], [%on_heap, %heap]
  %to_free = phi ptr [null, %stack], [%on_heap, %heap]
  %blocks = getelementptr ptr, ptr %objects, i64 %inputs
  %addresses = getelementptr ptr, ptr %blocks, i64 %all
  %results = getelementptr ptr, ptr %blocks, i64 %inputs
  %result_addresses = getelementptr i64, ptr %addresses, i64 %inputs
  %argument_trees_at = getelementptr i64, ptr %plan, i64 $PLAN.argument_trees$
  %argument_trees = load ptr, ptr %argument_trees_at
  store ptr %argument_trees, ptr %cursor
  br label %gathering

gathering:
  %a = phi i64 [0, %scratch], [%a1, %gathered]
  %a_end = icmp eq i64 %a, %count
  br i1 %a_end, label %gathered_all, label %gather_one
gather_one:
  %argument_at = getelementptr ptr, ptr %arguments, i64 %a
  %argument = load ptr, ptr %argument_at
  %fits = call i1 @gather(ptr %argument, ptr %cursor, ptr %objects)
  br i1 %fits, label %gathered, label %refuse
gathered:
  %a1 = add i64 %a, 1
  br label %gathering
gathered_all:
  %captured_at = getelementptr i64, ptr %plan, i64 $PLAN.captured$
  %captured = load ptr, ptr %captured_at
  %captured_place = getelementptr ptr, ptr %objects, i64 %leaves
  %captured_count = sub i64 %inputs, %leaves
  %captured_bytes = mul i64 %captured_count, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %captured_place, ptr %captured, i64 %captured_bytes,
                                   i1 false)
  %array_type = load ptr, ptr $STATE.array_type$
  %buffer_type = load ptr, ptr $STATE.buffer_type$
  %at_kind = load i64, ptr $STATE.offset_kind$
  %at_weak = load i64, ptr $STATE.offset_weak_type$
  %at_buffer = load i64, ptr $STATE.offset_buffer$
  %input_rows_at = getelementptr i64, ptr %plan, i64 $PLAN.input_rows$
  %input_rows = load ptr, ptr %input_rows_at
  br label %checking

checking:
  %i = phi i64 [0, %gathered_all], [%i1, %checked]
  %i_end = icmp eq i64 %i, %inputs
  br i1 %i_end, label %prepare, label %check
check:
  %object_at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %object_at
  %is_array = call i1 @has_type(ptr %object, ptr %array_type)
  br i1 %is_array, label %check_kind, label %refuse
check_kind:
  %input_row_number = mul i64 %i, $INPUT_WORDS$
  %input_row = getelementptr i64, ptr %input_rows, i64 %input_row_number
  %kind_at = getelementptr i8, ptr %object, i64 %at_kind
  %kind = load ptr, ptr %kind_at
  %kind_expected = load ptr, ptr %input_row
  %kind_same = icmp eq ptr %kind, %kind_expected
  br i1 %kind_same, label %check_weak, label %refuse
check_weak:
  %weak_at = getelementptr i8, ptr %object, i64 %at_weak
  %weak = load ptr, ptr %weak_at
  %weak_expected_at = getelementptr i64, ptr %input_row, i64 $INPUT.weak$
  %weak_expected = load ptr, ptr %weak_expected_at
  %weak_same = icmp eq ptr %weak, %weak_expected
  %weak_any = icmp eq ptr %weak_expected, null
  %weak_fits = or i1 %weak_same, %weak_any
  br i1 %weak_fits, label %check_buffer, label %refuse
check_buffer:
  %buffer_at = getelementptr i8, ptr %object, i64 %at_buffer
  %buffer = load ptr, ptr %buffer_at
  %buffer_gone = icmp eq ptr %buffer, null
  br i1 %buffer_gone, label %refuse, label %check_buffer_type
check_buffer_type:
  %is_buffer = call i1 @has_type(ptr %buffer, ptr %buffer_type)
  br i1 %is_buffer, label %checked, label %refuse
checked:
  %block_at = getelementptr ptr, ptr %blocks, i64 %i
  store ptr %buffer, ptr %block_at
  %address_from = getelementptr i8, ptr %buffer, i64 $BUFFER.address$
  %address = load i64, ptr %address_from
  %address_at = getelementptr i64, ptr %addresses, i64 %i
  store i64 %address, ptr %address_at
  %i1 = add i64 %i, 1
  br label %checking

prepare:
  %output_rows_at = getelementptr i64, ptr %plan, i64 $PLAN.output_rows$
  %output_rows = load ptr, ptr %output_rows_at
  %held_count_at = getelementptr i64, ptr %plan, i64 $PLAN.held_count$
  %held_count = load i64, ptr %held_count_at
  call void @hold(ptr %blocks, i64 %held_count)
?GUARDED  call void @hold(ptr %objects, i64 %held_count)
  br label %allocating
allocating:
  %o = phi i64 [0, %prepare], [%o1, %allocated]
  %o_end = icmp eq i64 %o, %outputs
  br i1 %o_end, label %work, label %output
output:
  %output_row_number = mul i64 %o, $OUTPUT_WORDS$
  %output_row = getelementptr i64, ptr %output_rows, i64 %output_row_number
  %alias_at = getelementptr i64, ptr %output_row, i64 $OUTPUT.alias$
  %alias = load i64, ptr %alias_at
  %aliased = icmp sge i64 %alias, 0
  br i1 %aliased, label %share, label %may_reuse_donated

; The buffer of a donated input becomes that of a result, if it has one owner and was passed once:
; then it is counted once for its array, and once because this call holds it.
may_reuse_donated:
  %in_place_at = getelementptr i64, ptr %output_row, i64 $OUTPUT.in_place$
  %in_place = load i64, ptr %in_place_at
  %may_reuse = icmp sge i64 %in_place, 0
  br i1 %may_reuse, label %reuse_donated, label %fresh
reuse_donated:
  %old_at = getelementptr ptr, ptr %blocks, i64 %in_place
  %old = load ptr, ptr %old_at
  %references = load i64, ptr %old
  %twice = icmp eq i64 %references, 2
  %exclusive_at = getelementptr i8, ptr %old, i64 $BUFFER.exclusive$
  %exclusive_byte = load i8, ptr %exclusive_at
  %exclusive = icmp ne i8 %exclusive_byte, 0
  %free = and i1 %twice, %exclusive
  br i1 %free, label %share, label %fresh
share:
  %source = phi i64 [%alias, %output], [%in_place, %reuse_donated]
  %shared_at = getelementptr ptr, ptr %blocks, i64 %source
  %shared = load ptr, ptr %shared_at
  call void @Py_IncRef(ptr %shared)
  br label %allocated
fresh:
  %free_list = load ptr, ptr %output_row
  %block_bytes_at = getelementptr i64, ptr %output_row, i64 $OUTPUT.block_bytes$
  %block_bytes = load i64, ptr %block_bytes_at
  %size_at = getelementptr i64, ptr %output_row, i64 $OUTPUT.size_bytes$
  %size = load i64, ptr %size_at
  %popped = call ptr @pop_block(ptr %free_list, i64 %block_bytes, i64 %size)
  %no_memory = icmp eq ptr %popped, null
  br i1 %no_memory, label %undo, label %allocated
allocated:
  %new = phi ptr [%shared, %share], [%popped, %fresh]
  %result_at = getelementptr ptr, ptr %results, i64 %o
  store ptr %new, ptr %result_at
  %new_address_from = getelementptr i8, ptr %new, i64 $BUFFER.address$
  %new_address = load i64, ptr %new_address_from
  %new_address_at = getelementptr i64, ptr %result_addresses, i64 %o
  store i64 %new_address, ptr %new_address_at
  %o1 = add i64 %o, 1
  br label %allocating

work:
  %work_bytes_at = getelementptr i64, ptr %plan, i64 $PLAN.work_bytes$
  %work_bytes = load i64, ptr %work_bytes_at
  %workless = icmp eq i64 %work_bytes, 0
  br i1 %workless, label %start, label %take_work
take_work:
  %work_free_list_at = getelementptr i64, ptr %plan, i64 $PLAN.work_free_list$
  %work_free_list = load ptr, ptr %work_free_list_at
  %work_block_at = getelementptr i64, ptr %plan, i64 $PLAN.work_block_bytes$
  %work_block = load i64, ptr %work_block_at
  %work_popped = call ptr @pop_block(ptr %work_free_list, i64 %work_block, i64 %work_bytes)
  %no_work = icmp eq ptr %work_popped, null
  br i1 %no_work, label %undo, label %have_work
have_work:
  %arena_from = getelementptr i8, ptr %work_popped, i64 $BUFFER.address$
  %arena_popped = load ptr, ptr %arena_from
  br label %start
start:
  %arena = phi ptr [null, %work], [%arena_popped, %have_work]
  %work_buffer = phi ptr [null, %work], [%work_popped, %have_work]
  %run_at = getelementptr i64, ptr %plan, i64 $PLAN.run$
  %run = load ptr, ptr %run_at
  %call_at = getelementptr i64, ptr %plan, i64 $PLAN.call$
  %call = load ptr, ptr %call_at

; Reading the counter costs 10 ns, so of short programs only some calls are timed, all are counted.
  %calls_at = getelementptr i64, ptr %plan, i64 $PLAN.calls$
  %calls_before = load i64, ptr %calls_at
  %calls = add i64 %calls_before, 1
  store i64 %calls, ptr %calls_at
  %mask = load i64, ptr $STATE.sample_mask$
  %phase = and i64 %calls_before, %mask
  %sampled = icmp eq i64 %phase, 0
  %timed = or i1 %sampled, %is_unlocked
  %ring = load ptr, ptr $STATE.ring$
  %has_ring = icmp ne ptr %ring, null
  %logging = and i1 %timed, %has_ring
  br i1 %logging, label %note_begin, label %enter
note_begin:
  %begin_ticks = call i64 @llvm.readcyclecounter()
  br label %enter
enter:
  %began = phi i64 [0, %start], [%begin_ticks, %note_begin]
  br i1 %is_unlocked, label %unlocked, label %locked
locked:
  call void @release(ptr %blocks, i64 %held_count)
  call void %run(ptr null, ptr %call, ptr %addresses, ptr %arena)
  br i1 %logging, label %log_locked, label %ran_locked
log_locked:
  %ended_locked = call i64 @llvm.readcyclecounter()
  call void @log(ptr %ring, ptr %plan, i64 %calls, i64 %began, i64 %ended_locked,
                 ptr %blocks, ptr %work_buffer)
  br label %ran_locked
ran_locked:
  call void @Py_DecRef(ptr %work_buffer)
  br label %donate

; Other threads run meanwhile, and may drop the arguments: hold them.  They must not see donated
; arrays, which may be overwritten: those lose their buffers first.
unlocked:
  call void @hold(ptr %objects, i64 %inputs)
  call void @hold(ptr %blocks, i64 %inputs)
  call void @release(ptr %blocks, i64 %held_count)
?GUARDED  call void @release(ptr %objects, i64 %held_count)
  %pool_at = getelementptr i64, ptr %plan, i64 $PLAN.pool$
  %pool_source = load ptr, ptr %pool_at
  %no_pool_source = icmp eq ptr %pool_source, null
  store ptr null, ptr %pool_place
  br i1 %no_pool_source, label %donate, label %find_pool
find_pool:
  %pool_object = call ptr @PyObject_CallNoArgs(ptr %pool_source)
  %no_pool = icmp eq ptr %pool_object, null
  br i1 %no_pool, label %abandon, label %found_pool
found_pool:
  %pool_address = call ptr @PyLong_AsVoidPtr(ptr %pool_object)
  call void @Py_DecRef(ptr %pool_object)
  store ptr %pool_address, ptr %pool_place
  br label %donate

donate:
  %d = phi i64 [0, %ran_locked], [0, %unlocked], [0, %found_pool], [%d1, %donate_next]
  %d_end = icmp eq i64 %d, %leaves
  br i1 %d_end, label %donated_all, label %donate_one
donate_one:
  %donor_row_number = mul i64 %d, $INPUT_WORDS$
  %donor_row = getelementptr i64, ptr %input_rows, i64 %donor_row_number
  %donated_at = getelementptr i64, ptr %donor_row, i64 $INPUT.donated$
  %donated_word = load i64, ptr %donated_at
  %donated = icmp ne i64 %donated_word, 0
  br i1 %donated, label %take_buffer, label %donate_next
take_buffer:
  %donor_at = getelementptr ptr, ptr %objects, i64 %d
  %donor = load ptr, ptr %donor_at
  %donor_buffer_at = getelementptr i8, ptr %donor, i64 %at_buffer
  %donor_buffer = load ptr, ptr %donor_buffer_at
  %none = call ptr @new_none()
  store ptr %none, ptr %donor_buffer_at
  call void @Py_DecRef(ptr %donor_buffer)
  br label %donate_next
donate_next:
  %d1 = add i64 %d, 1
  br label %donate
donated_all:
  br i1 %is_unlocked, label %run_unlocked, label %finish
run_unlocked:
  %pool = load ptr, ptr %pool_place
  %thread = call ptr @PyEval_SaveThread()
  call void %run(ptr %pool, ptr %call, ptr %addresses, ptr %arena)
  %ended_unlocked = call i64 @llvm.readcyclecounter()
  call void @PyEval_RestoreThread(ptr %thread)
  br i1 %logging, label %log_unlocked, label %ran_unlocked
log_unlocked:
  call void @log(ptr %ring, ptr %plan, i64 %calls, i64 %began, i64 %ended_unlocked,
                 ptr %blocks, ptr %work_buffer)
  br label %ran_unlocked
ran_unlocked:
  call void @Py_DecRef(ptr %work_buffer)
  call void @release(ptr %blocks, i64 %inputs)
  call void @release(ptr %objects, i64 %inputs)
  br label %finish
finish:
  %result_tree_at = getelementptr i64, ptr %plan, i64 $PLAN.result_tree$
  %result_tree = load ptr, ptr %result_tree_at
  store ptr %result_tree, ptr %cursor
  %result = call ptr @build(ptr %cursor, ptr %output_rows, ptr %results)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %fail, label %exit
fail:
  call void @release(ptr %results, i64 %outputs)
  br label %exit

abandon:
  call void @Py_DecRef(ptr %work_buffer)
  call void @release(ptr %blocks, i64 %inputs)
  call void @release(ptr %objects, i64 %inputs)
  call void @release(ptr %results, i64 %outputs)
  br label %exit
undo:
  %result_count = phi i64 [%o, %fresh], [%outputs, %take_work]
  call void @release(ptr %results, i64 %result_count)
  call void @release(ptr %blocks, i64 %held_count)
?GUARDED  call void @release(ptr %objects, i64 %held_count)
  br label %refuse
refuse:
  %refused = call ptr @refusal()
  br label %exit
exit:
  %answer = phi ptr [%result, %finish], [null, %fail], [null, %abandon], [%refused, %refuse]
  %is_on_heap = icmp ne ptr %to_free, null
  br i1 %is_on_heap, label %free_scratch, label %leave
free_scratch:
  call void @PyMem_RawFree(ptr %to_free)
  br label %leave
leave:
  ret ptr %answer
refuse_at_once:
  %refused_at_once = call ptr @refusal()
  ret ptr %refused_at_once
}

define internal ptr @refusal() #0 {
  %refusal = load ptr, ptr $STATE.not_implemented$
  call void @Py_IncRef(ptr %refusal)
  ret ptr %refusal
}

; Threads may switch the log off while a program runs; the ring stays where it is.
define internal void @log(ptr %ring, ptr %plan, i64 %calls, i64 %began, i64 %ended, ptr %blocks,
                          ptr %work_buffer) {
  %number_at = getelementptr i64, ptr %plan, i64 $PLAN.number$
  %number = load i64, ptr %number_at
  %count = load i64, ptr $STATE.row_count$
  %next = add i64 %count, 1
  store i64 %next, ptr $STATE.row_count$
  %row = and i64 %count, $RING_MASK$
  %word = mul i64 %row, $RING_WORDS$
  %number_to = getelementptr i64, ptr %ring, i64 %word
  store i64 %number, ptr %number_to
  %began_to = getelementptr i64, ptr %number_to, i64 1
  store i64 %began, ptr %began_to
  %ended_to = getelementptr i64, ptr %number_to, i64 2
  store i64 %ended, ptr %ended_to
  %calls_to = getelementptr i64, ptr %number_to, i64 3
  store i64 %calls, ptr %calls_to
  %live = load i64, ptr $STATE.live_bytes$
  %live_to = getelementptr i64, ptr %number_to, i64 4
  store i64 %live, ptr %live_to
  %use_ring = load ptr, ptr $STATE.use_ring$
  %unlogged = icmp eq ptr %use_ring, null
  br i1 %unlogged, label %exit, label %uses
uses:
  call void @log_uses(ptr %use_ring, ptr %plan, i64 %ended, ptr %blocks, ptr %work_buffer)
  br label %exit
exit:
  ret void
}

; Results that are arguments under another name are not written.
define internal void @log_uses(ptr %ring, ptr %plan, i64 %ended, ptr %blocks,
                               ptr %work_buffer) #0 {
entry:
  %number_at = getelementptr i64, ptr %plan, i64 $PLAN.number$
  %number = load i64, ptr %number_at
  %inputs_at = getelementptr i64, ptr %plan, i64 $PLAN.input_count$
  %inputs = load i64, ptr %inputs_at
  %outputs_at = getelementptr i64, ptr %plan, i64 $PLAN.output_count$
  %outputs = load i64, ptr %outputs_at
  %output_rows_at = getelementptr i64, ptr %plan, i64 $PLAN.output_rows$
  %output_rows = load ptr, ptr %output_rows_at
  %results = getelementptr ptr, ptr %blocks, i64 %inputs
  br label %reading
reading:
  %i = phi i64 [0, %entry], [%i1, %read]
  %i_end = icmp eq i64 %i, %inputs
  br i1 %i_end, label %writing, label %read
read:
  %input_at = getelementptr ptr, ptr %blocks, i64 %i
  %input = load ptr, ptr %input_at
  call void @use(ptr %ring, i64 $USE.read$, i64 %number, ptr %input, i64 %ended)
  %i1 = add i64 %i, 1
  br label %reading
writing:
  %o = phi i64 [0, %reading], [%o1, %wrote]
  %o_end = icmp eq i64 %o, %outputs
  br i1 %o_end, label %worked, label %may_write
may_write:
  %word = mul i64 %o, $OUTPUT_WORDS$
  %output_row = getelementptr i64, ptr %output_rows, i64 %word
  %alias_at = getelementptr i64, ptr %output_row, i64 $OUTPUT.alias$
  %alias = load i64, ptr %alias_at
  %aliased = icmp sge i64 %alias, 0
  br i1 %aliased, label %wrote, label %write
write:
  %result_at = getelementptr ptr, ptr %results, i64 %o
  %result = load ptr, ptr %result_at
  call void @use(ptr %ring, i64 $USE.write$, i64 %number, ptr %result, i64 %ended)
  br label %wrote
wrote:
  %o1 = add i64 %o, 1
  br label %writing
worked:
  %workless = icmp eq ptr %work_buffer, null
  br i1 %workless, label %exit, label %work
work:
  call void @use(ptr %ring, i64 $USE.work$, i64 %number, ptr %work_buffer, i64 %ended)
  br label %exit
exit:
  ret void
}

define i64 @read_counter() {
  %ticks = call i64 @llvm.readcyclecounter()
  ret i64 %ticks
}

; On x86 rdtsc, on AArch64 cntvct_el0: counters of constant rate that user code may read.
declare i64 @llvm.readcyclecounter()

define void @hold(ptr %objects, i64 %count) #0 {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i1, %one]
  %end = icmp eq i64 %i, %count
  br i1 %end, label %exit, label %one
one:
  %at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %at
  call void @Py_IncRef(ptr %object)
  %i1 = add i64 %i, 1
  br label %loop
exit:
  ret void
}

define void @release(ptr %objects, i64 %count) #0 {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i1, %one]
  %end = icmp eq i64 %i, %count
  br i1 %end, label %exit, label %one
one:
  %at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %at
  call void @Py_DecRef(ptr %object)
  %i1 = add i64 %i, 1
  br label %loop
exit:
  ret void
}

declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
