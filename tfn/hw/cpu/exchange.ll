; An exchange over memory that processes share: a table of steps, run in order.
;
; A step is four words: its kind, x, y, z.
;
;   copy  z bytes from y to x
;   post  y + the word at z, to the counter x; readers of it see all that was written before
;   wait  until the counter x is at least y + the word at z
;   add   y to the word x, of this process alone
;   call  the program whose words of a call are at x, on the buffers at y, with the memory at z
;
; Functions:
;   advance   runs the steps from one on; returns the number of the step that has to wait longer,
;             or that after the last; its caller decides how long the whole may take

define i64 @advance(ptr %steps, i64 %from, i64 %to, i64 %turns) {
entry:
  br label %next
next:
  %i = phi i64 [%from, %entry], [%after, %done]
  %end = icmp eq i64 %i, %to
  br i1 %end, label %stop, label %step
step:
  %row = getelementptr [4 x i64], ptr %steps, i64 %i
  %kind = load i64, ptr %row
  %x_at = getelementptr i64, ptr %row, i64 1
  %x = load ptr, ptr %x_at
  %y_at = getelementptr i64, ptr %row, i64 2
  %y = load i64, ptr %y_at
  %y_place = inttoptr i64 %y to ptr
  %z_at = getelementptr i64, ptr %row, i64 3
  %z = load i64, ptr %z_at
  %z_place = inttoptr i64 %z to ptr
  switch i64 %kind, label %call [
    i64 $STEP.copy$, label %copy
    i64 $STEP.post$, label %post
    i64 $STEP.wait$, label %wait
    i64 $STEP.add$, label %add
  ]
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %x, ptr %y_place, i64 %z, i1 false)
  br label %done
post:
  %posted_before = load i64, ptr %z_place
  %posted = add i64 %posted_before, %y
  store atomic i64 %posted, ptr %x release, align 8
  br label %done
wait:
  %waited_before = load i64, ptr %z_place
  %least = add i64 %waited_before, %y
  br label %ask
ask:
  %turn = phi i64 [0, %wait], [%again, %later]
  %now = load atomic i64, ptr %x acquire, align 8
  %there = icmp sge i64 %now, %least
  br i1 %there, label %done, label %late
late:
  %again = add i64 %turn, 1
  %tired = icmp ugt i64 %again, %turns
  br i1 %tired, label %stop, label %rest
rest:
  %long = icmp ugt i64 %turn, $PAUSES$
  br i1 %long, label %yield, label %pause
pause:
?X86  call void @llvm.x86.sse2.pause()
?ARM  call void @llvm.aarch64.isb(i32 15)
  br label %later
yield:
  call i32 @sched_yield()
  br label %later
later:
  br label %ask
add:
  %word = load i64, ptr %x
  %more = add i64 %word, %y
  store i64 %more, ptr %x
  br label %done
call:
  call void @run(ptr null, ptr %x, ptr %y_place, ptr %z_place)
  br label %done
done:
  %after = add i64 %i, 1
  br label %next
stop:
  ret i64 %i
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i32 @sched_yield()
declare void @run(ptr, ptr, ptr, ptr)
?X86 declare void @llvm.x86.sse2.pause()
?ARM declare void @llvm.aarch64.isb(i32)
