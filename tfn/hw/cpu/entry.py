"""The body of every compiled function, as LLVM IR, in this order:

the arrays are gathered from the arguments; each is checked, by identity of what describes it;
outputs and working memory come from their shelves; the program runs, without the interpreter's
lock if it takes long; donated arrays lose their buffers, before anybody else could see them
change; the arrays of the results are made.

It answers NotImplemented, and has done nothing, when an argument does not fit or there is no memory
at hand: then the slow path works, or complains.
"""

from __future__ import annotations

TEXT = """
define ptr @call(ptr %self, ptr %arguments, i64 %count) {{
entry:
  %holder_at = getelementptr i8, ptr %self, i64 {ITEMS}
  %holder = load ptr, ptr %holder_at
  %plan_at = getelementptr i8, ptr %holder, i64 {ADDRESS}
  %plan = load ptr, ptr %plan_at
  %wanted_at = getelementptr i64, ptr %plan, i64 {plan_arguments}
  %wanted = load i64, ptr %wanted_at
  %same = icmp eq i64 %wanted, %count
  %enabled = load i64, ptr {enabled}
  %on = icmp ne i64 %enabled, 0
  %ready = and i1 %same, %on
  br i1 %ready, label %begin, label %refuse
begin:
  %leaves_at = getelementptr i64, ptr %plan, i64 {plan_leaves}
  %leaves = load i64, ptr %leaves_at
  %inputs_at = getelementptr i64, ptr %plan, i64 {plan_inputs}
  %inputs = load i64, ptr %inputs_at
  %outputs_at = getelementptr i64, ptr %plan, i64 {plan_outputs}
  %outputs = load i64, ptr %outputs_at
  %long_at = getelementptr i64, ptr %plan, i64 {plan_long}
  %long_word = load i64, ptr %long_at
  %long = icmp ne i64 %long_word, 0
  %all = add i64 %inputs, %outputs
  %objects = alloca ptr, i64 %inputs
  %blocks = alloca ptr, i64 %all
  %addresses = alloca i64, i64 %all
  %results = getelementptr ptr, ptr %blocks, i64 %inputs
  %result_addresses = getelementptr i64, ptr %addresses, i64 %inputs
  %cursor = alloca ptr
  %pool_place = alloca ptr
  %takes_at = getelementptr i64, ptr %plan, i64 {plan_takes}
  %takes = load ptr, ptr %takes_at
  store ptr %takes, ptr %cursor
  br label %gathering

gathering:
  %a = phi i64 [0, %begin], [%a1, %gathered]
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
  %captured_at = getelementptr i64, ptr %plan, i64 {plan_captured}
  %captured = load ptr, ptr %captured_at
  %captured_place = getelementptr ptr, ptr %objects, i64 %leaves
  %captured_count = sub i64 %inputs, %leaves
  %captured_bytes = mul i64 %captured_count, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %captured_place, ptr %captured, i64 %captured_bytes,
                                   i1 false)
  %array_type = load ptr, ptr {array_type}
  %buffer_type = load ptr, ptr {buffer_type}
  %at_kind = load i64, ptr {at_kind}
  %at_weak = load i64, ptr {at_weak_type}
  %at_buffer = load i64, ptr {at_buffer}
  %input_rows_at = getelementptr i64, ptr %plan, i64 {plan_input_rows}
  %input_rows = load ptr, ptr %input_rows_at
  br label %checking

checking:
  %i = phi i64 [0, %gathered_all], [%i1, %checked]
  %i_end = icmp eq i64 %i, %inputs
  br i1 %i_end, label %prepare, label %check
check:
  %object_at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %object_at
  %is_array = call i1 @is(ptr %object, ptr %array_type)
  br i1 %is_array, label %check_kind, label %refuse
check_kind:
  %input_row_number = mul i64 %i, {input_words}
  %input_row = getelementptr i64, ptr %input_rows, i64 %input_row_number
  %kind_at = getelementptr i8, ptr %object, i64 %at_kind
  %kind = load ptr, ptr %kind_at
  %kind_wanted = load ptr, ptr %input_row
  %kind_same = icmp eq ptr %kind, %kind_wanted
  br i1 %kind_same, label %check_weak, label %refuse
check_weak:
  %weak_at = getelementptr i8, ptr %object, i64 %at_weak
  %weak = load ptr, ptr %weak_at
  %weak_wanted_at = getelementptr i64, ptr %input_row, i64 {in_weak}
  %weak_wanted = load ptr, ptr %weak_wanted_at
  %weak_same = icmp eq ptr %weak, %weak_wanted
  %weak_any = icmp eq ptr %weak_wanted, null
  %weak_fits = or i1 %weak_same, %weak_any
  br i1 %weak_fits, label %check_buffer, label %refuse
check_buffer:
  %buffer_at = getelementptr i8, ptr %object, i64 %at_buffer
  %buffer = load ptr, ptr %buffer_at
  %buffer_gone = icmp eq ptr %buffer, null
  br i1 %buffer_gone, label %refuse, label %check_buffer_type
check_buffer_type:
  %is_buffer = call i1 @is(ptr %buffer, ptr %buffer_type)
  br i1 %is_buffer, label %checked, label %refuse
checked:
  %block_at = getelementptr ptr, ptr %blocks, i64 %i
  store ptr %buffer, ptr %block_at
  %address_from = getelementptr i8, ptr %buffer, i64 {ADDRESS}
  %address = load i64, ptr %address_from
  %address_at = getelementptr i64, ptr %addresses, i64 %i
  store i64 %address, ptr %address_at
  %i1 = add i64 %i, 1
  br label %checking

prepare:
  %output_rows_at = getelementptr i64, ptr %plan, i64 {plan_output_rows}
  %output_rows = load ptr, ptr %output_rows_at
  %counted_at = getelementptr i64, ptr %plan, i64 {plan_counted}
  %counted = load i64, ptr %counted_at
  call void @hold(ptr %blocks, i64 %counted)
{hold_objects}  br label %allocating
allocating:
  %o = phi i64 [0, %prepare], [%o1, %allocated]
  %o_end = icmp eq i64 %o, %outputs
  br i1 %o_end, label %work, label %output
output:
  %output_row_number = mul i64 %o, {output_words}
  %output_row = getelementptr i64, ptr %output_rows, i64 %output_row_number
  %alias_at = getelementptr i64, ptr %output_row, i64 {out_alias}
  %alias = load i64, ptr %alias_at
  %aliased = icmp sge i64 %alias, 0
  br i1 %aliased, label %share, label %may_overwrite

; A buffer that is given away becomes that of a result, if it has one owner and was passed once:
; then it is counted once for its array, and once because it is held.
may_overwrite:
  %over_at = getelementptr i64, ptr %output_row, i64 {out_over}
  %over = load i64, ptr %over_at
  %some = icmp sge i64 %over, 0
  br i1 %some, label %overwrite, label %fresh
overwrite:
  %old_at = getelementptr ptr, ptr %blocks, i64 %over
  %old = load ptr, ptr %old_at
  %references = load i64, ptr %old
  %twice = icmp eq i64 %references, 2
  %exclusive_at = getelementptr i8, ptr %old, i64 {EXCLUSIVE}
  %exclusive_byte = load i8, ptr %exclusive_at
  %exclusive = icmp ne i8 %exclusive_byte, 0
  %free = and i1 %twice, %exclusive
  br i1 %free, label %share, label %fresh
share:
  %source = phi i64 [%alias, %output], [%over, %overwrite]
  %shared_at = getelementptr ptr, ptr %blocks, i64 %source
  %shared = load ptr, ptr %shared_at
  call void @Py_IncRef(ptr %shared)
  br label %allocated
fresh:
  %shelf = load ptr, ptr %output_row
  %block_bytes_at = getelementptr i64, ptr %output_row, i64 {out_block}
  %block_bytes = load i64, ptr %block_bytes_at
  %size_at = getelementptr i64, ptr %output_row, i64 {out_size}
  %size = load i64, ptr %size_at
  %taken = call ptr @take(ptr %shelf, i64 %block_bytes, i64 %size)
  %no_memory = icmp eq ptr %taken, null
  br i1 %no_memory, label %undo, label %allocated
allocated:
  %new = phi ptr [%shared, %share], [%taken, %fresh]
  %result_at = getelementptr ptr, ptr %results, i64 %o
  store ptr %new, ptr %result_at
  %new_address_from = getelementptr i8, ptr %new, i64 {ADDRESS}
  %new_address = load i64, ptr %new_address_from
  %new_address_at = getelementptr i64, ptr %result_addresses, i64 %o
  store i64 %new_address, ptr %new_address_at
  %o1 = add i64 %o, 1
  br label %allocating

work:
  %work_bytes_at = getelementptr i64, ptr %plan, i64 {plan_work_bytes}
  %work_bytes = load i64, ptr %work_bytes_at
  %workless = icmp eq i64 %work_bytes, 0
  br i1 %workless, label %start, label %take_work
take_work:
  %work_shelf_at = getelementptr i64, ptr %plan, i64 {plan_work_shelf}
  %work_shelf = load ptr, ptr %work_shelf_at
  %work_block_at = getelementptr i64, ptr %plan, i64 {plan_work_block}
  %work_block = load i64, ptr %work_block_at
  %work_taken = call ptr @take(ptr %work_shelf, i64 %work_block, i64 %work_bytes)
  %no_work = icmp eq ptr %work_taken, null
  br i1 %no_work, label %undo, label %took_work
took_work:
  %arena_from = getelementptr i8, ptr %work_taken, i64 {ADDRESS}
  %arena_taken = load ptr, ptr %arena_from
  br label %start
start:
  %arena = phi ptr [null, %work], [%arena_taken, %took_work]
  %work_buffer = phi ptr [null, %work], [%work_taken, %took_work]
  %run_at = getelementptr i64, ptr %plan, i64 {plan_run}
  %run = load ptr, ptr %run_at
  %call_at = getelementptr i64, ptr %plan, i64 {plan_call}
  %call = load ptr, ptr %call_at
  br i1 %long, label %slowly, label %quickly
quickly:
  call void @release(ptr %blocks, i64 %counted)
  call void %run(ptr null, ptr %call, ptr %addresses, ptr %arena)
  call void @Py_DecRef(ptr %work_buffer)
  br label %give_away

; Others run meanwhile, who may let go of what we were given: hold it.  They must not see what is
; donated, for it may be written over: that goes away first.
slowly:
  call void @hold(ptr %objects, i64 %inputs)
  call void @hold(ptr %blocks, i64 %inputs)
  call void @release(ptr %blocks, i64 %counted)
{release_objects}  %pool_at = getelementptr i64, ptr %plan, i64 {plan_pool}
  %pool_source = load ptr, ptr %pool_at
  %serial = icmp eq ptr %pool_source, null
  store ptr null, ptr %pool_place
  br i1 %serial, label %give_away, label %hire
hire:
  %pool_object = call ptr @PyObject_CallNoArgs(ptr %pool_source)
  %no_pool = icmp eq ptr %pool_object, null
  br i1 %no_pool, label %abandon, label %hired
hired:
  %pool_found = call ptr @PyLong_AsVoidPtr(ptr %pool_object)
  call void @Py_DecRef(ptr %pool_object)
  store ptr %pool_found, ptr %pool_place
  br label %give_away

; What was donated loses its buffer.
give_away:
  %d = phi i64 [0, %quickly], [0, %slowly], [0, %hired], [%d1, %given]
  %d_end = icmp eq i64 %d, %leaves
  br i1 %d_end, label %let_go, label %give
give:
  %donor_row_number = mul i64 %d, {input_words}
  %donor_row = getelementptr i64, ptr %input_rows, i64 %donor_row_number
  %donated_at = getelementptr i64, ptr %donor_row, i64 {in_donated}
  %donated_word = load i64, ptr %donated_at
  %donated = icmp ne i64 %donated_word, 0
  br i1 %donated, label %strip, label %given
strip:
  %donor_at = getelementptr ptr, ptr %objects, i64 %d
  %donor = load ptr, ptr %donor_at
  %donor_buffer_at = getelementptr i8, ptr %donor, i64 %at_buffer
  %donor_buffer = load ptr, ptr %donor_buffer_at
  %none = call ptr @nothing()
  store ptr %none, ptr %donor_buffer_at
  call void @Py_DecRef(ptr %donor_buffer)
  br label %given
given:
  %d1 = add i64 %d, 1
  br label %give_away
let_go:
  br i1 %long, label %leave, label %finish
leave:
  %pool = load ptr, ptr %pool_place
  %thread = call ptr @PyEval_SaveThread()
  call void %run(ptr %pool, ptr %call, ptr %addresses, ptr %arena)
  call void @PyEval_RestoreThread(ptr %thread)
  call void @Py_DecRef(ptr %work_buffer)
  call void @release(ptr %blocks, i64 %inputs)
  call void @release(ptr %objects, i64 %inputs)
  br label %finish
finish:
  %gives_at = getelementptr i64, ptr %plan, i64 {plan_gives}
  %gives = load ptr, ptr %gives_at
  store ptr %gives, ptr %cursor
  %result = call ptr @build(ptr %cursor, ptr %output_rows, ptr %results)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %fail, label %exit
fail:
  call void @release(ptr %results, i64 %outputs)
  br label %exit
exit:
  ret ptr %result

abandon:
  call void @Py_DecRef(ptr %work_buffer)
  call void @release(ptr %blocks, i64 %inputs)
  call void @release(ptr %objects, i64 %inputs)
  call void @release(ptr %results, i64 %outputs)
  ret ptr null
undo:
  %made = phi i64 [%o, %fresh], [%outputs, %take_work]
  call void @release(ptr %results, i64 %made)
  call void @release(ptr %blocks, i64 %counted)
{release_objects}  br label %refuse
refuse:
  %refusal = load ptr, ptr {refusal}
  call void @Py_IncRef(ptr %refusal)
  ret ptr %refusal
}}

define void @hold(ptr %objects, i64 %count) #0 {{
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
}}

define void @release(ptr %objects, i64 %count) #0 {{
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
}}

declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
"""
