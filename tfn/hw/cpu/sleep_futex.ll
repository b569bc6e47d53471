; Sleep of idle workers on Linux: a futex on the number of the job.
;
; Functions:
;   sleep  blocks until the number of the job is no longer `seen`
;   wake   wakes all workers
;
; Source: Linux, futex(2).

define void @sleep(ptr %pool, i64 %seen) {
  %word = getelementptr i8, ptr %pool, i64 $JOB_NUMBER_AT$
  %expected = trunc i64 %seen to i32
  call i64 (i64, ...) @syscall(
      i64 $FUTEX_CALL$, ptr %word, i32 $FUTEX_WAIT$, i32 %expected, ptr null)
  ret void
}
define void @wake(ptr %pool) {
  %word = getelementptr i8, ptr %pool, i64 $JOB_NUMBER_AT$
  call i64 (i64, ...) @syscall(
      i64 $FUTEX_CALL$, ptr %word, i32 $FUTEX_WAKE$, i32 2147483647)
  ret void
}
declare i64 @syscall(i64, ...)
