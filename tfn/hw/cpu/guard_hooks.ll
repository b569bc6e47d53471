; Hooks of the guards: Python is called as blocks are allocated and freed.
;
; Other threads may run while it is, so an entry holds its inputs from the beginning.  A buffer may
; die while an error is being raised, which must not be lost.
;
; Functions:
;   call_hook  calls the function in a word of `state`, if any, with three numbers

@hook_format = private constant [4 x i8] c"LLL\00"

define void @call_hook(ptr %word, i64 %address, i64 %block_bytes, i64 %size_bytes) #0 {
  %hook = load ptr, ptr %word
  %removed = icmp eq ptr %hook, null
  br i1 %removed, label %exit, label %call
call:
  %type = alloca ptr
  %value = alloca ptr
  %traceback = alloca ptr
  ; An error may be set already: the hook must not see it, and it must not get lost.
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %traceback)
  %result = call ptr (ptr, ptr, ...) @PyObject_CallFunction(
      ptr %hook, ptr @hook_format, i64 %address, i64 %block_bytes, i64 %size_bytes)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %report, label %drop
report:
  %interrupt = load ptr, ptr @PyExc_KeyboardInterrupt
  %interrupted = call i32 @PyErr_ExceptionMatches(ptr %interrupt)
  %is_interrupt = icmp ne i32 %interrupted, 0
  br i1 %is_interrupt, label %pass_on, label %write
pass_on:  ; nothing can be raised here: let the interpreter raise it at its next check
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
}

@PyExc_KeyboardInterrupt = external global ptr
declare i32 @PyErr_ExceptionMatches(ptr)
declare void @PyErr_SetInterrupt()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare void @PyErr_WriteUnraisable(ptr)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
