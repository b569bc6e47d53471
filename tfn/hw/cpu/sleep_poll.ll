; Sleep of idle workers on systems without futexes: they poll every 100 us.
;
; Functions:
;   sleep  waits 100 us
;   wake   nothing: sleepers see the new job themselves

define void @sleep(ptr %pool, i64 %seen) {
  call i32 @usleep(i32 100)
  ret void
}
define void @wake(ptr %pool) {
  ret void
}
declare i32 @usleep(i32)
