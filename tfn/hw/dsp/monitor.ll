; The monitor: the program that runs on the DSP.  It maps the shared memory, then takes records of
; the command ring, one after the other, whenever the host rings; see commands.py for the words.
;
;   _start          maps the memory that the host names, and takes commands on a stack in it
;   take_commands   waits for the bell, takes records up to a signal, and begins again
;   host_call       is called by programs: the host runs a function on their memory
;   read_word       a word of the host's bell; 4 unless the host is gone
;   write_word      rings the host with a word
;   copy            copies bytes
;   place           the address of a place in shared memory
;   exit            ends the process

; long syscall(r0, ..., r5, number on the stack):
;     r6 = memw(r29+#0)    trap0(#1)    jumpr r31
@syscall = constant [3 x i32] [i32 -1851932666, i32 1409335300, i32 1386201088],
  section ".text.syscall", align 16

; Where shared memory begins, as the host has said at the start.
@base = internal global i32 0, align 4

; void on_stack(stack, function):    r29 = r0    jumpr r1
@on_stack = constant [2 x i32] [i32 1885388829, i32 1384235008], section ".text.stack", align 16

define internal i32 @read_word(ptr %word) {
  %n = call i32 @syscall(i32 0, ptr %word, i32 4, i32 0, i32 0, i32 0, i32 63)
  ret i32 %n
}

define internal void @write_word(i32 %word) {
  %slot = alloca i32, align 4
  store i32 %word, ptr %slot, align 4
  %n = call i32 @syscall(i32 1, ptr %slot, i32 4, i32 0, i32 0, i32 0, i32 64)
  ret void
}

define internal void @exit(i32 %status) noreturn {
  %ignored = call i32 @syscall(i32 %status, ptr null, i32 0, i32 0, i32 0, i32 0, i32 94)
  unreachable
}

; Called by programs: the host runs a function on their memory, and rings when it has finished.
define void @host_call(i64 %number, ptr %operands) {
  %bell = alloca i32, align 4
  %narrow = trunc i64 %number to i32
  %host.number.1 = call ptr @place(i32 $HOST_NUMBER$)
  store volatile i32 %narrow, ptr %host.number.1, align 4
  %address = ptrtoint ptr %operands to i32
  %host.operands.2 = call ptr @place(i32 $HOST_OPERANDS$)
  store volatile i32 %address, ptr %host.operands.2, align 4
  call void @write_word(i32 $HOST_CALLED$)
  br label %listen
listen:
  %n = call i32 @read_word(ptr %bell)
  %rung = icmp eq i32 %n, 4
  br i1 %rung, label %heard, label %gone
gone:
  call void @exit(i32 0)
  unreachable
heard:
  ; A bell that came too late for a wait may be first.
  %word = load i32, ptr %bell, align 4
  %answered = icmp eq i32 %word, $ANSWERED$
  br i1 %answered, label %done, label %listen
done:
  ret void
}

; Bytes in order; ranges do not overlap.
define internal void @copy(ptr %to, ptr %from, i32 %bytes) {
entry:
  %some = icmp ne i32 %bytes, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %source = getelementptr i8, ptr %from, i32 %i
  %target = getelementptr i8, ptr %to, i32 %i
  %byte = load i8, ptr %source, align 1
  store i8 %byte, ptr %target, align 1
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, %bytes
  br i1 %more, label %loop, label %done
done:
  ret void
}

; The address of a place in shared memory.
define internal ptr @place(i32 %offset) {
  %base = load i32, ptr @base, align 4
  %address = add i32 %base, %offset
  %pointer = inttoptr i32 %address to ptr
  ret ptr %pointer
}

define void @_start() {
entry:
  %setup = alloca [3 x i32], align 8
  %got = call i32 @syscall(i32 0, ptr %setup, i32 12, i32 0, i32 0, i32 0, i32 63)
  %whole = icmp eq i32 %got, 12
  br i1 %whole, label %map, label %gone
map:
  %file = load i32, ptr %setup, align 8
  %size.at = getelementptr i32, ptr %setup, i32 1
  %size = load i32, ptr %size.at, align 4
  %base.at = getelementptr i32, ptr %setup, i32 2
  %base = load i32, ptr %base.at, align 4
  store i32 %base, ptr @base, align 4
  ; mmap2 with PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED | MAP_FIXED.
  %mapped = call i32 @syscall(i32 %base, i32 %size, i32 7, i32 17, i32 %file, i32 0, i32 222)
  %there = icmp eq i32 %mapped, %base
  br i1 %there, label %ready, label %unmapped
unmapped:
  call void @exit(i32 3)
  unreachable
ready:
  %host.entry.3 = call ptr @place(i32 $HOST_ENTRY$)
  store ptr @host_call, ptr %host.entry.3, align 4
  call void @write_word(i32 $READY$)
  ; Programs keep the addresses of operands on the stack, where a function of the host reads them.
  %stack = call ptr @place(i32 $STACK$)
  call void @on_stack(ptr %stack, ptr @take_commands)
  unreachable
gone:
  call void @exit(i32 0)
  unreachable
}

define internal void @take_commands() {
entry:
  %bell = alloca i32, align 4
  br label %wait
wait:
  %n = call i32 @read_word(ptr %bell)
  %rung = icmp eq i32 %n, 4
  br i1 %rung, label %take, label %gone
gone:
  call void @exit(i32 0)
  unreachable
take:
  %head.4 = call ptr @place(i32 $HEAD$)
  %head = load volatile i32, ptr %head.4, align 4
  %tail.5 = call ptr @place(i32 $TAIL$)
  %tail = load volatile i32, ptr %tail.5, align 4
  %empty = icmp eq i32 %head, %tail
  br i1 %empty, label %wait, label %record
record:
  %word = and i32 %tail, $RING_MASK$
  %ring.6 = call ptr @place(i32 $RING$)
  %at = getelementptr i32, ptr %ring.6, i32 %word
  %code = load i32, ptr %at, align 4
  %p1 = getelementptr i32, ptr %at, i32 1
  %p2 = getelementptr i32, ptr %at, i32 2
  %p3 = getelementptr i32, ptr %at, i32 3
  %p4 = getelementptr i32, ptr %at, i32 4
  %words = load i32, ptr %p1, align 4
  switch i32 %code, label %bad [
    i32 $SKIP$, label %next
    i32 $LAUNCH$, label %launch
    i32 $COPY$, label %copy
    i32 $SIGNAL$, label %signal
    i32 $WAIT$, label %check
  ]
bad:
  call void @exit(i32 4)
  unreachable
launch:
  %entry.at = load ptr, ptr %p2, align 4
  %arena = load ptr, ptr %p3, align 4
  %failure.7 = call ptr @place(i32 $FAILURE$)
  store i64 0, ptr %failure.7, align 8
  %sync.8 = call ptr @place(i32 $SYNC$)
  call void %entry.at(i64 0, i64 1, ptr %p4, ptr %arena, ptr %sync.8)
  br label %next
copy:
  %to = load ptr, ptr %p2, align 4
  %from = load ptr, ptr %p3, align 4
  %bytes = load i32, ptr %p4, align 4
  call void @copy(ptr %to, ptr %from, i32 %bytes)
  br label %next
signal:
  %value = load i32, ptr %p2, align 4
  %signalled.9 = call ptr @place(i32 $SIGNALLED$)
  store volatile i32 %value, ptr %signalled.9, align 4
  %past = add i32 %tail, %words
  %tail.10 = call ptr @place(i32 $TAIL$)
  store volatile i32 %past, ptr %tail.10, align 4
  call void @write_word(i32 %value)
  ; The next batch has a bell of its own: it is not taken before that rings.
  br label %wait
check:
  %flag.at = load ptr, ptr %p2, align 4
  %expected = load i32, ptr %p3, align 4
  %flag = load volatile i32, ptr %flag.at, align 4
  %reached = icmp eq i32 %flag, %expected
  br i1 %reached, label %next, label %sleep
sleep:
  %m = call i32 @read_word(ptr %bell)
  %rung.again = icmp eq i32 %m, 4
  br i1 %rung.again, label %check, label %gone
next:
  %end = add i32 %tail, %words
  %tail.11 = call ptr @place(i32 $TAIL$)
  store volatile i32 %end, ptr %tail.11, align 4
  br label %take
}
