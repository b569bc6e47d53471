; The thread pool: how a program is run by the threads that are awake.
;
; Threads are SPMD: all that take part call the program's one function, each with its own number.
; The caller is number 0.  It offers a job by opening the admission; a worker joins by counting
; itself in; the caller closes the admission when all have joined or its patience ends, and only
; then is it settled how many threads run.  So a caller never waits for a worker that sleeps, and
; late workers miss one job.
;
; The admission is one word, so that joining and closing are single atomic steps:
;
;   bits 63..32  number of the job          (workers sleep on these: a futex)
;   bit  31      closed
;   bits 30..0   how many workers joined
;
; Waiting is a bounded spin, then yielding to other processes, then, for idle workers, sleep.
;
; A pool begins with the admission; its other words (`thread_pool.POOL`) are on cache lines of their
; own, and end with the job: program, buffers, arena, sync.  A call (`thread_pool.CALL`) is what
; must be known of one program.
;
; Functions:
;   enter  calls the program with the denormal mode of `float_mode`, and restores the caller's
;   now    nanoseconds of the monotonic clock
;   spin   waits a moment; from the 33rd turn on it yields to other processes
;   run    runs a program: alone, or with the workers of a pool that is not busy, as
;          `thread_choice.ll` says
;   work   the life of a worker
;   stop   ends the workers; 0 if a program is running
;   offer_nothing  wakes the workers by a job that is closed: they spin for a while

; Libraries loaded by Python may have told a thread to flush denormal numbers or not, and results
; must not depend on which thread computes them.
@float_mode = global i32 $FLOAT_MODE$
define void @enter(ptr %entry, i64 %thread, i64 %threads, ptr %buffers, ptr %arena,
                   ptr %sync) {
?X86  %saved = alloca i32
?X86  call void @llvm.x86.sse.stmxcsr(ptr %saved)
?X86  call void @llvm.x86.sse.ldmxcsr(ptr @float_mode)
?ARM  %saved = call i64 @llvm.aarch64.get.fpcr()
?ARM  %mode = load i32, ptr @float_mode
?ARM  %word = zext i32 %mode to i64
?ARM  call void @llvm.aarch64.set.fpcr(i64 %word)
  call void %entry(i64 %thread, i64 %threads, ptr %buffers, ptr %arena, ptr %sync)
?X86  call void @llvm.x86.sse.ldmxcsr(ptr %saved)
?ARM  call void @llvm.aarch64.set.fpcr(i64 %saved)
  ret void
}

define i64 @now() {
  %time = alloca [2 x i64]
  call i32 @clock_gettime(i32 $CLOCK_MONOTONIC$, ptr %time)
  %seconds = load i64, ptr %time
  %rest_at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest_at
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}

define void @spin(i64 %turn) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
?X86  call void @llvm.x86.sse2.pause()
?ARM  call void @llvm.aarch64.isb(i32 15)
  %next = add i64 %i, 1
  %again = icmp ult i64 %next, 16
  br i1 %again, label %loop, label %after
after:
  %long = icmp ugt i64 %turn, 32
  br i1 %long, label %yield, label %exit
yield:
  call i32 @sched_yield()
  br label %exit
exit:
  ret void
}

define void @run(ptr %pool, ptr %call, ptr %buffers, ptr %arena) {
entry:
  %program = load ptr, ptr %call
  %sync_offset_at = getelementptr i8, ptr %call, i64 $CALL.sync_offset$
  %sync_offset = load i64, ptr %sync_offset_at
  %sync = getelementptr i8, ptr %arena, i64 %sync_offset
  %sync_bytes_at = getelementptr i8, ptr %call, i64 $CALL.sync_bytes$
  %sync_bytes = load i64, ptr %sync_bytes_at
  call void @llvm.memset.p0.i64(ptr %sync, i8 0, i64 %sync_bytes, i1 false)
  %host_from = getelementptr i8, ptr %call, i64 $CALL.host$
  %host = load ptr, ptr %host_from
  %no_host = icmp eq ptr %host, null
  br i1 %no_host, label %begin, label %pass_host
pass_host:
  %host_at = getelementptr i8, ptr %sync, i64 8
  store ptr %host, ptr %host_at
  br label %begin
begin:
  %switch_at = getelementptr i8, ptr %call, i64 $CALL.log$
  %switch = load ptr, ptr %switch_at
  %unlogged = icmp eq ptr %switch, null
  br i1 %unlogged, label %choose, label %pass_log
pass_log:
  %log = load ptr, ptr %switch
  %log_to = getelementptr i8, ptr %sync, i64 $LOG_OFFSET$
  store ptr %log, ptr %log_to
  %number_at = getelementptr i8, ptr %call, i64 $CALL.number$
  %number_word = load i64, ptr %number_at
  %number_to = getelementptr i8, ptr %sync, i64 $NUMBER_OFFSET$
  store i64 %number_word, ptr %number_to
  br label %choose
choose:
  %none = icmp eq ptr %pool, null
  br i1 %none, label %alone, label %decide
decide:
  %begin_ns = call i64 @now()
  %asleep_at = getelementptr i8, ptr %pool, i64 $POOL.asleep$
  %asleep_before = load atomic i32, ptr %asleep_at monotonic, align 4
  %drowsy = icmp ne i32 %asleep_before, 0
  %times_from = getelementptr i8, ptr %call, i64 $CALL.times$
  %times = load ptr, ptr %times_from
  %estimate_at = getelementptr i8, ptr %call, i64 $CALL.work_ns$
  %estimate = load i64, ptr %estimate_at
  %sharing = call i1 @choose(ptr %pool, ptr %times, i1 %drowsy, i64 %estimate)
  br i1 %sharing, label %ask, label %lonely
lonely:
  call void @enter(ptr %program, i64 0, i64 1, ptr %buffers, ptr %arena, ptr %sync)
  %end_ns = call i64 @now()
  %lonely_ns = sub i64 %end_ns, %begin_ns
  call void @learn(ptr %times, i1 %drowsy, i1 false, i64 %lonely_ns)
  br i1 %drowsy, label %missing_them, label %left
missing_them:
  call void @miss(ptr %pool, ptr %times, i64 %begin_ns, i64 %end_ns)
  br label %left
left:
  ret void
ask:
  %busy = getelementptr i8, ptr %pool, i64 $POOL.busy$
  %claimed = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %got_pool = extractvalue {i32, i1} %claimed, 1
  br i1 %got_pool, label %offer, label %alone
alone:
  call void @enter(ptr %program, i64 0, i64 1, ptr %buffers, ptr %arena, ptr %sync)
  ret void
offer:
  %done = getelementptr i8, ptr %pool, i64 $POOL.done$
  store atomic i32 0, ptr %done monotonic, align 4
  %job = getelementptr i8, ptr %pool, i64 $POOL.job$
  store ptr %program, ptr %job
  %job1 = getelementptr i8, ptr %job, i64 8
  store ptr %buffers, ptr %job1
  %job2 = getelementptr i8, ptr %job, i64 16
  store ptr %arena, ptr %job2
  %job3 = getelementptr i8, ptr %job, i64 24
  store ptr %sync, ptr %job3
  %workers_at = getelementptr i8, ptr %pool, i64 $POOL.workers$
  %workers = load i64, ptr %workers_at
  %patience_at = getelementptr i8, ptr %call, i64 $CALL.patience_ns$
  %patience_awake = load i64, ptr %patience_at
  %patience = select i1 %drowsy, i64 $WAKING_PATIENCE_NS$, i64 %patience_awake
  %last = load atomic i64, ptr %pool monotonic, align 8
  %number = lshr i64 %last, 32
  %number1 = add i64 %number, 1
  %open = shl i64 %number1, 32
  ; Sequentially consistent, as is the worker's count of sleepers: either it sees the new job or
  ; the caller sees that it sleeps.
  store atomic i64 %open, ptr %pool seq_cst, align 8
  %asleep = load atomic i32, ptr %asleep_at seq_cst, align 4
  %some = icmp ne i32 %asleep, 0
  br i1 %some, label %wake_them, label %await
wake_them:
  call void @wake(ptr %pool)
  br label %await
await:
  %offered_ns = call i64 @now()
  br label %joining
joining:
  %turn = phi i64 [0, %await], [%turn1, %patient]
  %admission = load atomic i64, ptr %pool monotonic, align 8
  %joined = and i64 %admission, 2147483647
  %all = icmp uge i64 %joined, %workers
  br i1 %all, label %close, label %missing
missing:
  %time = call i64 @now()
  %waited = sub i64 %time, %offered_ns
  %late = icmp ugt i64 %waited, %patience
  br i1 %late, label %close, label %patient
patient:
  call void @spin(i64 %turn)
  %turn1 = add i64 %turn, 1
  br label %joining
close:  ; from here on no worker joins, and the number of threads is fixed
  %final = atomicrmw or ptr %pool, i64 2147483648 seq_cst
  %helpers = and i64 %final, 2147483647
  %threads = add i64 %helpers, 1
  call void @enter(ptr %program, i64 0, i64 %threads, ptr %buffers, ptr %arena, ptr %sync)
  %helpers32 = trunc i64 %helpers to i32
  br label %finishing
finishing:
  %turn2 = phi i64 [0, %close], [%turn3, %unfinished]
  %finished = load atomic i32, ptr %done acquire, align 4
  %ready = icmp eq i32 %finished, %helpers32
  br i1 %ready, label %exit, label %unfinished
unfinished:
  call void @spin(i64 %turn2)
  %turn3 = add i64 %turn2, 1
  br label %finishing
exit:
  store atomic i32 0, ptr %busy release, align 4
  %finished_ns = call i64 @now()
  %shared_ns = sub i64 %finished_ns, %begin_ns
  call void @learn(ptr %times, i1 %drowsy, i1 true, i64 %shared_ns)
  %last_at = getelementptr i8, ptr %pool, i64 $POOL.last_ns$
  store atomic i64 %finished_ns, ptr %last_at monotonic, align 8
  ret void
}

define void @work(ptr %pool) {
entry:
  %done = getelementptr i8, ptr %pool, i64 $POOL.done$
  %asleep = getelementptr i8, ptr %pool, i64 $POOL.asleep$
  %stop_at = getelementptr i8, ptr %pool, i64 $POOL.stop$
  %workers_at = getelementptr i8, ptr %pool, i64 $POOL.workers$
  %job = getelementptr i8, ptr %pool, i64 $POOL.job$
  %job1 = getelementptr i8, ptr %job, i64 8
  %job2 = getelementptr i8, ptr %job, i64 16
  %job3 = getelementptr i8, ptr %job, i64 24
  %first = load atomic i64, ptr %pool seq_cst, align 8
  %first_number = lshr i64 %first, 32
  br label %idle
idle:
  %seen = phi i64 [%first_number, %entry], [%number, %missed], [%number, %finish]
  %since = call i64 @now()
  br label %look
look:
  %turn = phi i64 [0, %idle], [%turn1, %spin], [0, %slept], [%turn, %lost_race]
  %admission = load atomic i64, ptr %pool acquire, align 8
  %number = lshr i64 %admission, 32
  %same = icmp eq i64 %number, %seen
  br i1 %same, label %wait, label %offered
wait:
  %stop = load atomic i32, ptr %stop_at monotonic, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %exit, label %stay
stay:
  %time = call i64 @now()
  %waited = sub i64 %time, %since
  %idle_too_long = icmp ugt i64 %waited, $IDLE_NS$
  br i1 %idle_too_long, label %go_to_sleep, label %spin
spin:
  call void @spin(i64 %turn)
  %turn1 = add i64 %turn, 1
  br label %look
go_to_sleep:
  atomicrmw add ptr %asleep, i32 1 seq_cst
  call void @sleep(ptr %pool, i64 %seen)
  atomicrmw sub ptr %asleep, i32 1 seq_cst
  br label %slept
slept:
  br label %look
offered:
  %bit = and i64 %admission, 2147483648
  %closed = icmp ne i64 %bit, 0
  %joined = and i64 %admission, 2147483647
  %workers = load i64, ptr %workers_at
  %full = icmp uge i64 %joined, %workers
  %not_open = or i1 %closed, %full
  br i1 %not_open, label %missed, label %join
missed:
  br label %idle
join:
  %joined_admission = add i64 %admission, 1
  %result = cmpxchg ptr %pool, i64 %admission, i64 %joined_admission seq_cst monotonic
  %admitted = extractvalue {i64, i1} %result, 1
  br i1 %admitted, label %joined_in, label %lost_race
lost_race:
  br label %look
joined_in:
  %me = add i64 %joined, 1
  br label %closing
closing:
  %turn2 = phi i64 [0, %joined_in], [%turn3, %still_open]
  %admission2 = load atomic i64, ptr %pool acquire, align 8
  %bit2 = and i64 %admission2, 2147483648
  %settled = icmp ne i64 %bit2, 0
  br i1 %settled, label %go, label %still_open
still_open:
  call void @spin(i64 %turn2)
  %turn3 = add i64 %turn2, 1
  br label %closing
go:
  %helpers = and i64 %admission2, 2147483647
  %threads = add i64 %helpers, 1
  %program = load ptr, ptr %job
  %buffers = load ptr, ptr %job1
  %arena = load ptr, ptr %job2
  %sync = load ptr, ptr %job3
  call void @enter(ptr %program, i64 %me, i64 %threads, ptr %buffers, ptr %arena, ptr %sync)
  br label %finish
finish:
  atomicrmw add ptr %done, i32 1 release
  br label %idle
exit:
  ret void
}

define i32 @stop(ptr %pool) {
entry:
  %busy = getelementptr i8, ptr %pool, i64 $POOL.busy$
  %claimed = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %got_pool = extractvalue {i32, i1} %claimed, 1
  br i1 %got_pool, label %end, label %refuse
refuse:
  ret i32 0
end:
  %stop_at = getelementptr i8, ptr %pool, i64 $POOL.stop$
  store atomic i32 1, ptr %stop_at seq_cst, align 4
  call void @offer_nothing(ptr %pool)
  ret i32 1
}

define void @offer_nothing(ptr %pool) {
  %last = load atomic i64, ptr %pool monotonic, align 8
  %number = lshr i64 %last, 32
  %number1 = add i64 %number, 1
  %empty = shl i64 %number1, 32
  %closed = or i64 %empty, 2147483648
  store atomic i64 %closed, ptr %pool seq_cst, align 8
  call void @wake(ptr %pool)
  ret void
}

declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
