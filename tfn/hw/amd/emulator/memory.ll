; Memory as waves of 32 lanes access it, with the bounds of each access checked.
;
; The context of a launch:
;    0  three windows of memory, begin and size: of the device, of the group, of threads
;   48  the allocations of the device, as many pairs of begin and size, and their number
;   64  the fault: its kind (0 for none, 1 outside, 2 misaligned), the number of the instruction's
;       place, the lane, the group; 80 its address, 88 the bytes of the access
;  128  256 bytes that take what a faulty access would write
; An access that is faulty is noted, and goes to these bytes instead: the first fault is kept.
;
;   inside          whether bytes lie in an allocation of their space
;   place           the address of an access of a lane, or of the bytes for faulty ones
;   neighbours      whether lanes access words that follow each other
;   wave_load       reads for the lanes of a mask
;   wave_store      writes for the lanes of a mask
;   scalar_place    the address of an access of the whole wave
;   wave_permute    values of lanes by the numbers of others
;   run_groups      runs the waves of groups of a launch

declare i1 @llvm.vector.reduce.and.v32i1(<32 x i1>)
declare i32 @llvm.cttz.i32(i32, i1)

; Whether bytes are inside of the window of a space, or of another allocation, which then
; becomes it.
define internal i1 @inside(ptr %context, i32 %space, i64 %address, i64 %wide) {
entry:
  %window = getelementptr {i64, i64}, ptr %context, i32 %space
  %size_at = getelementptr i64, ptr %window, i32 1
  %begin = load i64, ptr %window
  %size = load i64, ptr %size_at
  %from = sub i64 %address, %begin
  %enough = icmp uge i64 %size, %wide
  %last = sub i64 %size, %wide
  %in = icmp ule i64 %from, %last
  %fits = and i1 %enough, %in
  br i1 %fits, label %yes, label %search
search:
  %is_device = icmp eq i32 %space, 0
  br i1 %is_device, label %begin_search, label %no
begin_search:
  %table_at = getelementptr i8, ptr %context, i64 48
  %table = load ptr, ptr %table_at
  %count_at = getelementptr i8, ptr %context, i64 56
  %count = load i64, ptr %count_at
  br label %next
next:
  %i = phi i64 [ 0, %begin_search ], [ %i1, %other ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %try, label %no
try:
  %row = getelementptr {i64, i64}, ptr %table, i64 %i
  %row_size_at = getelementptr i64, ptr %row, i32 1
  %row_begin = load i64, ptr %row
  %row_size = load i64, ptr %row_size_at
  %row_from = sub i64 %address, %row_begin
  %row_enough = icmp uge i64 %row_size, %wide
  %row_last = sub i64 %row_size, %wide
  %row_in = icmp ule i64 %row_from, %row_last
  %row_fits = and i1 %row_enough, %row_in
  br i1 %row_fits, label %keep, label %other
other:
  %i1 = add i64 %i, 1
  br label %next
keep:
  store i64 %row_begin, ptr %window
  store i64 %row_size, ptr %size_at
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; The place in memory of one lane's access.
define internal ptr @place(ptr %context, i32 %space, i64 %address, i32 %bytes, i32 %lane,
    i32 %site) {
entry:
  %wide = zext i32 %bytes to i64
  ; Words need addresses of words; in the memory of a group accesses of two or four words more.
  %is_word = icmp uge i32 %bytes, 4
  %some = select i1 %is_word, i32 4, i32 %bytes
  %is_group = icmp eq i32 %space, 1
  %is_pair = icmp eq i32 %bytes, 8
  %own = and i1 %is_group, %is_pair
  %pair = select i1 %own, i32 8, i32 %some
  %low = trunc i64 %address to i32
  %mask = sub i32 %pair, 1
  %rest = and i32 %low, %mask
  %aligned = icmp eq i32 %rest, 0
  br i1 %aligned, label %inside, label %misaligned
inside:
  %fits = call i1 @inside(ptr %context, i32 %space, i64 %address, i64 %wide)
  br i1 %fits, label %found, label %outside
found:
  %p = inttoptr i64 %address to ptr
  ret ptr %p
misaligned:
  br label %fault
outside:
  br label %fault
fault:
  %kind = phi i32 [ 2, %misaligned ], [ 1, %outside ]
  %fault_at = getelementptr i8, ptr %context, i64 64
  %before = load i32, ptr %fault_at
  %first = icmp eq i32 %before, 0
  br i1 %first, label %note, label %sink
note:
  store i32 %kind, ptr %fault_at
  %site_at = getelementptr i8, ptr %context, i64 68
  store i32 %site, ptr %site_at
  %lane_at = getelementptr i8, ptr %context, i64 72
  store i32 %lane, ptr %lane_at
  %address_at = getelementptr i8, ptr %context, i64 80
  store i64 %address, ptr %address_at
  %bytes_at = getelementptr i8, ptr %context, i64 88
  store i32 %bytes, ptr %bytes_at
  br label %sink
sink:
  %nowhere = getelementptr i8, ptr %context, i64 128
  ret ptr %nowhere
}

; Whether all lanes access neighbouring words, and the first of them; or null.
define internal ptr @neighbours(ptr %context, i32 %space, <32 x i64> %addresses) {
entry:
  %first = extractelement <32 x i64> %addresses, i32 0
  %one = insertelement <32 x i64> poison, i64 %first, i32 0
  %all = shufflevector <32 x i64> %one, <32 x i64> poison, <32 x i32> zeroinitializer
  %from = sub <32 x i64> %addresses, %all
  %equal = icmp eq <32 x i64> %from, <i64 0, i64 4, i64 8, i64 12, i64 16, i64 20, i64 24, i64 28,
      i64 32, i64 36, i64 40, i64 44, i64 48, i64 52, i64 56, i64 60, i64 64, i64 68, i64 72,
      i64 76, i64 80, i64 84, i64 88, i64 92, i64 96, i64 100, i64 104, i64 108, i64 112, i64 116,
      i64 120, i64 124>
  %are = call i1 @llvm.vector.reduce.and.v32i1(<32 x i1> %equal)
  br i1 %are, label %inside, label %no
inside:
  %in = call i1 @inside(ptr %context, i32 %space, i64 %first, i64 128)
  %rest = and i64 %first, 3
  %aligned = icmp eq i64 %rest, 0
  %fits = and i1 %in, %aligned
  br i1 %fits, label %yes, label %no
yes:
  %p = inttoptr i64 %first to ptr
  ret ptr %p
no:
  ret ptr null
}

; Load 1, 2 or 4 n bytes of each lane of the mask into one register or n of them.
define void @wave_load(ptr %context, i32 %space, ptr %at, i32 %mask, i32 %bytes, ptr %to,
    i32 %site) {
entry:
  %full = icmp eq i32 %mask, -1
  %is_word = icmp eq i32 %bytes, 4
  %simple = and i1 %full, %is_word
  br i1 %simple, label %fast, label %lanes
fast:
  %addresses = load <32 x i64>, ptr %at, align 64
  %p = call ptr @neighbours(ptr %context, i32 %space, <32 x i64> %addresses)
  %none = icmp eq ptr %p, null
  br i1 %none, label %equal, label %whole
whole:
  %vector = load <32 x i32>, ptr %p, align 4
  store <32 x i32> %vector, ptr %to, align 64
  ret void
equal:
  %first = extractelement <32 x i64> %addresses, i32 0
  %one = insertelement <32 x i64> poison, i64 %first, i32 0
  %all = shufflevector <32 x i64> %one, <32 x i64> poison, <32 x i32> zeroinitializer
  %same = icmp eq <32 x i64> %addresses, %all
  %are = call i1 @llvm.vector.reduce.and.v32i1(<32 x i1> %same)
  br i1 %are, label %splat, label %lanes
splat:
  %q = call ptr @place(ptr %context, i32 %space, i64 %first, i32 4, i32 0, i32 %site)
  %word = load i32, ptr %q, align 4
  %w1 = insertelement <32 x i32> poison, i32 %word, i32 0
  %words = shufflevector <32 x i32> %w1, <32 x i32> poison, <32 x i32> zeroinitializer
  store <32 x i32> %words, ptr %to, align 64
  ret void
lanes:
  %window = getelementptr {i64, i64}, ptr %context, i32 %space
  %size_at = getelementptr i64, ptr %window, i32 1
  %wide = zext i32 %bytes to i64
  %is_pair = icmp eq i32 %bytes, 8
  %rest = select i1 %is_pair, i64 7, i64 3
  br label %next
next:
  %m = phi i32 [ %mask, %lanes ], [ %m2, %done ]
  %finished = icmp eq i32 %m, 0
  br i1 %finished, label %exit, label %lane
lane:
  %i = call i32 @llvm.cttz.i32(i32 %m, i1 true)
  %m1 = sub i32 %m, 1
  %m2 = and i32 %m, %m1
  %address_at = getelementptr i64, ptr %at, i32 %i
  %address = load i64, ptr %address_at
  ; Most lanes are inside of the present window, at multiples of eight bytes or of words.
  %begin = load i64, ptr %window
  %size = load i64, ptr %size_at
  %offset = sub i64 %address, %begin
  %begins = icmp ult i64 %offset, %size
  %left = sub i64 %size, %offset
  %ends = icmp uge i64 %left, %wide
  %both = and i1 %begins, %ends
  %low = and i64 %address, %rest
  %aligned = icmp eq i64 %low, 0
  %simple_lane = and i1 %both, %aligned
  br i1 %simple_lane, label %direct, label %checked
direct:
  %direct_at = inttoptr i64 %address to ptr
  br label %at_place
checked:
  %checked_at = call ptr @place(ptr %context, i32 %space, i64 %address, i32 %bytes, i32 %i,
      i32 %site)
  br label %at_place
at_place:
  %r = phi ptr [ %direct_at, %direct ], [ %checked_at, %checked ]
  %out = getelementptr i32, ptr %to, i32 %i
  switch i32 %bytes, label %long [ i32 1, label %byte i32 2, label %half ]
byte:
  %b = load i8, ptr %r
  %bw = zext i8 %b to i32
  store i32 %bw, ptr %out
  br label %done
half:
  %h = load i16, ptr %r, align 1
  %hw = zext i16 %h to i32
  store i32 %hw, ptr %out
  br label %done
long:
  %count = lshr i32 %bytes, 2
  br label %step
step:
  %j = phi i32 [ 0, %long ], [ %j1, %step ]
  %from = getelementptr i32, ptr %r, i32 %j
  %v = load i32, ptr %from, align 1
  %place = shl i32 %j, 5
  %into = getelementptr i32, ptr %out, i32 %place
  store i32 %v, ptr %into
  %j1 = add i32 %j, 1
  %again = icmp ult i32 %j1, %count
  br i1 %again, label %step, label %done
done:
  br label %next
exit:
  ret void
}

; Store 1, 2 or 4 n bytes of each lane of the mask, in the order of the lanes.
define void @wave_store(ptr %context, i32 %space, ptr %at, i32 %mask, i32 %bytes, ptr %of,
    i32 %site) {
entry:
  %full = icmp eq i32 %mask, -1
  %is_word = icmp eq i32 %bytes, 4
  %simple = and i1 %full, %is_word
  br i1 %simple, label %fast, label %lanes
fast:
  %addresses = load <32 x i64>, ptr %at, align 64
  %p = call ptr @neighbours(ptr %context, i32 %space, <32 x i64> %addresses)
  %none = icmp eq ptr %p, null
  br i1 %none, label %lanes, label %whole
whole:
  %vector = load <32 x i32>, ptr %of, align 64
  store <32 x i32> %vector, ptr %p, align 4
  ret void
lanes:
  %window = getelementptr {i64, i64}, ptr %context, i32 %space
  %size_at = getelementptr i64, ptr %window, i32 1
  %wide = zext i32 %bytes to i64
  %is_pair = icmp eq i32 %bytes, 8
  %rest = select i1 %is_pair, i64 7, i64 3
  br label %next
next:
  %m = phi i32 [ %mask, %lanes ], [ %m2, %done ]
  %finished = icmp eq i32 %m, 0
  br i1 %finished, label %exit, label %lane
lane:
  %i = call i32 @llvm.cttz.i32(i32 %m, i1 true)
  %m1 = sub i32 %m, 1
  %m2 = and i32 %m, %m1
  %address_at = getelementptr i64, ptr %at, i32 %i
  %address = load i64, ptr %address_at
  ; Most lanes are inside of the present window, at multiples of eight bytes or of words.
  %begin = load i64, ptr %window
  %size = load i64, ptr %size_at
  %offset = sub i64 %address, %begin
  %begins = icmp ult i64 %offset, %size
  %left = sub i64 %size, %offset
  %ends = icmp uge i64 %left, %wide
  %both = and i1 %begins, %ends
  %low = and i64 %address, %rest
  %aligned = icmp eq i64 %low, 0
  %simple_lane = and i1 %both, %aligned
  br i1 %simple_lane, label %direct, label %checked
direct:
  %direct_at = inttoptr i64 %address to ptr
  br label %at_place
checked:
  %checked_at = call ptr @place(ptr %context, i32 %space, i64 %address, i32 %bytes, i32 %i,
      i32 %site)
  br label %at_place
at_place:
  %r = phi ptr [ %direct_at, %direct ], [ %checked_at, %checked ]
  %in = getelementptr i32, ptr %of, i32 %i
  switch i32 %bytes, label %long [ i32 1, label %byte i32 2, label %half ]
byte:
  %bw = load i32, ptr %in
  %b = trunc i32 %bw to i8
  store i8 %b, ptr %r
  br label %done
half:
  %hw = load i32, ptr %in
  %h = trunc i32 %hw to i16
  store i16 %h, ptr %r, align 1
  br label %done
long:
  %count = lshr i32 %bytes, 2
  br label %step
step:
  %j = phi i32 [ 0, %long ], [ %j1, %step ]
  %place = shl i32 %j, 5
  %from = getelementptr i32, ptr %in, i32 %place
  %v = load i32, ptr %from
  %into = getelementptr i32, ptr %r, i32 %j
  store i32 %v, ptr %into, align 1
  %j1 = add i32 %j, 1
  %again = icmp ult i32 %j1, %count
  br i1 %again, label %step, label %done
done:
  br label %next
exit:
  ret void
}

; The place of a load of scalars.
define ptr @scalar_place(ptr %context, i64 %address, i32 %bytes, i32 %site) {
  %p = call ptr @place(ptr %context, i32 0, i64 %address, i32 %bytes, i32 0, i32 %site)
  ret ptr %p
}

; Each lane the value of the lane that it names.
define void @wave_permute(ptr %values, ptr %lanes, ptr %to) {
entry:
  br label %next
next:
  %i = phi i32 [ 0, %entry ], [ %i1, %next ]
  %lane_at = getelementptr i32, ptr %lanes, i32 %i
  %lane = load i32, ptr %lane_at
  %inside = and i32 %lane, 31
  %value_at = getelementptr i32, ptr %values, i32 %inside
  %value = load i32, ptr %value_at
  %out = getelementptr i32, ptr %to, i32 %i
  store i32 %value, ptr %out
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, 32
  br i1 %more, label %next, label %exit
exit:
  ret void
}

; Run groups of a grid, one after the other.  The waves of a group take turns: each runs to a
; barrier,
; and the number of the place where it goes on is the first word of its state; -1 once it has ended.
define void @run_groups(ptr %context, ptr %wave, ptr %states, i64 %state_bytes, i64 %arguments,
    i32 %begin, i32 %end, i32 %threads) {
entry:
  %t31 = add i32 %threads, 31
  %waves = lshr i32 %t31, 5
  %fault_at = getelementptr i8, ptr %context, i64 64
  %group_at = getelementptr i8, ptr %context, i64 76
  br label %groups
groups:
  %g = phi i32 [ %begin, %entry ], [ %g1, %group_done ]
  %more = icmp ult i32 %g, %end
  br i1 %more, label %clear, label %exit
clear:
  %c = phi i32 [ 0, %groups ], [ %c1, %clear ]
  %c64 = zext i32 %c to i64
  %c_offset = mul i64 %c64, %state_bytes
  %c_state = getelementptr i8, ptr %states, i64 %c_offset
  store i32 0, ptr %c_state
  %c1 = add i32 %c, 1
  %c_more = icmp ult i32 %c1, %waves
  br i1 %c_more, label %clear, label %round
round:
  br label %turn
turn:
  %w = phi i32 [ 0, %round ], [ %w1, %turned ]
  %alive = phi i1 [ false, %round ], [ %alive1, %turned ]
  %w64 = zext i32 %w to i64
  %offset = mul i64 %w64, %state_bytes
  %state = getelementptr i8, ptr %states, i64 %offset
  %resume = load i32, ptr %state
  %ended = icmp eq i32 %resume, -1
  br i1 %ended, label %turned, label %go
go:
  %first = shl i32 %w, 5
  %left = sub i32 %threads, %first
  %many = icmp uge i32 %left, 32
  %bit = shl i32 1, %left
  %some = sub i32 %bit, 1
  %mask = select i1 %many, i32 -1, i32 %some
  %next = call i32 %wave(ptr %context, ptr %state, i32 %resume, i64 %arguments, i32 %g,
      i32 %first, i32 %mask)
  store i32 %next, ptr %state
  %lives = icmp ne i32 %next, -1
  %fault = load i32, ptr %fault_at
  %faulty = icmp ne i32 %fault, 0
  br i1 %faulty, label %stop, label %turned
turned:
  %alive_now = phi i1 [ false, %turn ], [ %lives, %go ]
  %alive1 = or i1 %alive, %alive_now
  %w1 = add i32 %w, 1
  %w_more = icmp ult i32 %w1, %waves
  br i1 %w_more, label %turn, label %round_done
round_done:
  br i1 %alive1, label %round, label %group_done
group_done:
  %g1 = add i32 %g, 1
  br label %groups
stop:
  store i32 %g, ptr %group_at
  br label %exit
exit:
  ret void
}
