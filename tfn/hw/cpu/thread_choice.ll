; The choice between one thread and all, for each call of a program, by the times of its last calls.
;
; An estimate of the compiler may be wrong by a factor of twenty for a program of few microseconds,
; and what threads gain depends on the machine and on whatever else runs there; so both ways are
; timed.  The times of a program (`thread_pool.TIMES`) are four, each of the whole call: on one
; thread and on all, while all workers are awake and while some are asleep.  In each state the
; first 16 calls take turns, two and two, unless one way takes more than one and a half times as
; long; then the better way is taken, and the other is tried in two of 512 calls, if it takes less
; than four times as long.
;
; A worker that is woken arrives later than a short program ends: only programs that are long enough
; wake workers and wait for them.  Others run alone.  What they miss by that is added up as long as
; calls follow each other closely, and workers are woken for the calls to come when it has reached
; what waking costs.  (A ski rental: no sequence of calls costs more than about twice what it would
; if the future were known.)
;
; All threads are taken if they save an eighth of the time: less is not worth a second core.
; Words are read and written without locks, as two callers at once lose no more than one time.
;
; Functions:
;   choose  whether a call shall be shared
;   learn   notes the time of a call
;   miss    after a call on one thread while workers sleep: wakes them if they have been missed

define i1 @choose(ptr %pool, ptr %times, i1 %asleep, i64 %estimate_ns) {
entry:
  %pool_number = ptrtoint ptr %pool to i64
  %known_pool = load atomic i64, ptr %times monotonic, align 8
  %same = icmp eq i64 %known_pool, %pool_number
  br i1 %same, label %look, label %forget
forget:
  call void @llvm.memset.p0.i64(ptr align 8 %times, i8 0, i64 $TIMES_BYTES$, i1 false)
  store atomic i64 %pool_number, ptr %times monotonic, align 8
  br label %look
look:
  %offset = select i1 %asleep, i64 $TIMES.asleep$, i64 $TIMES.awake$
  %alone_at = getelementptr i8, ptr %times, i64 %offset
  %shared_at = getelementptr i8, ptr %alone_at, i64 8
  %alone = load atomic i64, ptr %alone_at monotonic, align 8
  %shared = load atomic i64, ptr %shared_at monotonic, align 8
  %never_shared = icmp eq i64 %shared, 0
  %never_alone = icmp eq i64 %alone, 0
  br i1 %never_shared, label %first, label %second
first:
  %expected = select i1 %never_alone, i64 %estimate_ns, i64 %alone
  %long = icmp uge i64 %expected, $WORTH_WAKING_NS$
  %awake = xor i1 %asleep, true
  %begin = or i1 %awake, %long
  ret i1 %begin
second:
  %too_long = icmp uge i64 %shared, $TRIED_ALONE_NS$
  br i1 %never_alone, label %untried, label %compare
untried:
  ret i1 %too_long
compare:
  %eighth = lshr i64 %alone, 3
  %bound = sub i64 %alone, %eighth
  %gains = icmp ule i64 %shared, %bound
  %turns_at = getelementptr i8, ptr %alone_at, i64 16
  %turn = load atomic i64, ptr %turns_at monotonic, align 8
  %next_turn = add i64 %turn, 1
  store atomic i64 %next_turn, ptr %turns_at monotonic, align 8
  %new = icmp ult i64 %turn, 16
  %mask = select i1 %new, i64 3, i64 511
  %phase = and i64 %next_turn, %mask
  %on_trial = icmp ult i64 %phase, 2
  %less = call i64 @llvm.umin.i64(i64 %alone, i64 %shared)
  %more = call i64 @llvm.umax.i64(i64 %alone, i64 %shared)
  %half = lshr i64 %less, 1
  %three = mul i64 %less, 3
  %above = select i1 %new, i64 %half, i64 %three
  %too_much = add i64 %less, %above
  %close = icmp ult i64 %more, %too_much
  %other = and i1 %on_trial, %close
  %choice = xor i1 %gains, %other
  ret i1 %choice
}

; While workers are awake, a minimum, since interruptions only add; but one that grows by an eighth
; with each call that takes longer, so that it follows a machine that has become busy.  While they
; sleep, an average: how long a worker takes to wake varies, and the least is far from the usual.
define void @learn(ptr %times, i1 %asleep, i1 %shared, i64 %time_ns) {
  %offset = select i1 %asleep, i64 $TIMES.asleep$, i64 $TIMES.awake$
  %alone_at = getelementptr i8, ptr %times, i64 %offset
  %step = select i1 %shared, i64 8, i64 0
  %at = getelementptr i8, ptr %alone_at, i64 %step
  %old = load atomic i64, ptr %at monotonic, align 8
  %eighth = lshr i64 %old, 3
  %risen = add i64 %old, %eighth
  %least = call i64 @llvm.umin.i64(i64 %time_ns, i64 %risen)
  %twice = shl i64 %old, 1
  %bounded = call i64 @llvm.umin.i64(i64 %time_ns, i64 %twice)
  %three = mul i64 %old, 3
  %sum = add i64 %three, %bounded
  %average = lshr i64 %sum, 2
  %next = select i1 %asleep, i64 %average, i64 %least
  %unknown = icmp eq i64 %old, 0
  %found = select i1 %unknown, i64 %time_ns, i64 %next
  %time = call i64 @llvm.umax.i64(i64 %found, i64 8)
  store atomic i64 %time, ptr %at monotonic, align 8
  ret void
}

; A program that is never shared while workers sleep would never learn that it should be: so a small
; part of its time counts as missed whatever the times are, and wakes workers for a trial.
define void @miss(ptr %pool, ptr %times, i64 %begin_ns, i64 %end_ns) {
entry:
  %last_at = getelementptr i8, ptr %pool, i64 $POOL.last_ns$
  %missed_at = getelementptr i8, ptr %pool, i64 $POOL.missed_ns$
  %last = load atomic i64, ptr %last_at monotonic, align 8
  store atomic i64 %end_ns, ptr %last_at monotonic, align 8
  %pause = sub i64 %begin_ns, %last
  %paused = icmp sgt i64 %pause, $IDLE_NS$
  %before = load atomic i64, ptr %missed_at monotonic, align 8
  %time = sub i64 %end_ns, %begin_ns
  %alone_at = getelementptr i8, ptr %times, i64 $TIMES.awake$
  %shared_at = getelementptr i8, ptr %alone_at, i64 8
  %alone = load atomic i64, ptr %alone_at monotonic, align 8
  %shared = load atomic i64, ptr %shared_at monotonic, align 8
  %difference = sub i64 %alone, %shared
  %gain = call i64 @llvm.smax.i64(i64 %difference, i64 0)
  %half = lshr i64 %time, 1
  %untried = icmp eq i64 %shared, 0
  %hoped = select i1 %untried, i64 %half, i64 %gain
  %doubt = lshr i64 %time, 8
  %both = add i64 %hoped, %doubt
  %more = add i64 %before, %both
  %missed = select i1 %paused, i64 0, i64 %more
  %enough = icmp ugt i64 %missed, $WAKING_NS$
  %rest = select i1 %enough, i64 0, i64 %missed
  store atomic i64 %rest, ptr %missed_at monotonic, align 8
  br i1 %enough, label %ask, label %exit
ask:
  %busy = getelementptr i8, ptr %pool, i64 $POOL.busy$
  %claimed = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %got_pool = extractvalue {i32, i1} %claimed, 1
  br i1 %got_pool, label %rouse, label %exit
rouse:
  %turns_at = getelementptr i8, ptr %alone_at, i64 16
  store atomic i64 511, ptr %turns_at monotonic, align 8
  call void @offer_nothing(ptr %pool)
  store atomic i32 0, ptr %busy release, align 4
  br label %exit
exit:
  ret void
}

declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
