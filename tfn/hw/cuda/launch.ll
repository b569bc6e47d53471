; The launch of a graph on the addresses of a call, without a frame of Python.
;
;   find     the copy of the graph whose table holds these addresses
;   fill     without one: the words of the table of another copy, which are written to the device
;   launch   that copy
;
; `launch.CALL` has the words of a call.  The interpreter's lock guards them, and is held: driver
; calls that are enqueued return at once.
;
; Functions:
;   note           counts a program that is about to start, and remembers it for errors
;   run            what the entry of a program calls, see `hw/cpu/entry.ll`; an error is kept in the
;                  words of the queue, where the next read finds it, and ends native calls
;   launch         the same for Python: the code of the driver's error, 0 for none
;   write          a number to the device, before the programs that follow: the code of the error
;   matches        whether the table of a copy holds these addresses
;   fill           the words of a table from the addresses, which are remembered for a copy

define void @note(ptr %queue, i64 %program) {
  %started_at_at = getelementptr i64, ptr %queue, i64 $QUEUE.started_at$
  %started_at = load ptr, ptr %started_at_at
  %started = load i64, ptr %started_at
  %started1 = add i64 %started, 1
  store i64 %started1, ptr %started_at
  %turn = and i64 %started1, $RECENT_MASK$
  %recent = getelementptr i64, ptr %queue, i64 $QUEUE.recent$
  %recent_at = getelementptr i64, ptr %recent, i64 %turn
  store i64 %program, ptr %recent_at
  ret void
}

define void @run(ptr %pool, ptr %call, ptr %addresses, ptr %arena) {
entry:
  %queue_at = getelementptr i64, ptr %call, i64 $CALL.queue$
  %queue = load ptr, ptr %queue_at
  %program_at = getelementptr i64, ptr %call, i64 $CALL.program$
  %program = load i64, ptr %program_at
  call void @note(ptr %queue, i64 %program)
  %code = call i32 @launch(ptr %call, ptr %addresses, ptr %arena, ptr null)
  %failed = icmp ne i32 %code, 0
  br i1 %failed, label %fail, label %exit
fail:
  %wide = zext i32 %code to i64
  %failed_at = getelementptr i64, ptr %queue, i64 $QUEUE.failed$
  store i64 %wide, ptr %failed_at
  %enabled_at_at = getelementptr i64, ptr %queue, i64 $QUEUE.enabled_at$
  %enabled_at = load ptr, ptr %enabled_at_at
  store i64 0, ptr %enabled_at
  br label %exit
exit:
  ret void
}

; With `moves`, which are added to the words, the table is written whatever it holds.
define i32 @launch(ptr %call, ptr %addresses, ptr %arena, ptr %moves) {
entry:
  %queue_at = getelementptr i64, ptr %call, i64 $CALL.queue$
  %queue = load ptr, ptr %queue_at
  %copies_at = getelementptr i64, ptr %call, i64 $CALL.copy_count$
  %copies = load i64, ptr %copies_at
  %empty = icmp eq i64 %copies, 0
  br i1 %empty, label %nothing, label %enter
nothing:
  ret i32 0
enter:
  %enter_at = getelementptr i64, ptr %queue, i64 $QUEUE.set_context$
  %set_context = load ptr, ptr %enter_at
  %context_at = getelementptr i64, ptr %queue, i64 $QUEUE.context$
  %context = load ptr, ptr %context_at
  %entered = call i32 %set_context(ptr %context)
  %not_entered = icmp ne i32 %entered, 0
  br i1 %not_entered, label %refuse_context, label %begin
refuse_context:
  ret i32 %entered
begin:
  %stream_at = getelementptr i64, ptr %queue, i64 $QUEUE.stream$
  %stream = load ptr, ptr %stream_at
  %rows = getelementptr i64, ptr %call, i64 $CALL.copies$
  %buffers_at = getelementptr i64, ptr %call, i64 $CALL.buffer_count$
  %buffers = load i64, ptr %buffers_at
  %last_at = getelementptr i64, ptr %call, i64 $CALL.last$
  %last = load i64, ptr %last_at
  %moved = icmp ne ptr %moves, null
  br i1 %moved, label %miss, label %find
find:
  %f = phi i64 [0, %begin], [%f1, %other]
  %f_end = icmp eq i64 %f, %copies
  br i1 %f_end, label %miss, label %look
look:
  ; From the one after the last: results that are fed back come in turns.
  %after = add i64 %f, 1
  %sum = add i64 %last, %after
  %copy = urem i64 %sum, %copies
  %word = mul i64 %copy, $COPY_WORDS$
  %row = getelementptr i64, ptr %rows, i64 %word
  %known_at = getelementptr i64, ptr %row, i64 $COPY.addresses$
  %known = load ptr, ptr %known_at
  %same = call i1 @matches(ptr %known, ptr %addresses, ptr %arena, i64 %buffers)
  br i1 %same, label %start, label %other
other:
  %f1 = add i64 %f, 1
  br label %find

miss:
  %next = add i64 %last, 1
  %taken = urem i64 %next, %copies
  %taken_word = mul i64 %taken, $COPY_WORDS$
  %taken_row = getelementptr i64, ptr %rows, i64 %taken_word
  call void @fill(ptr %call, ptr %taken_row, ptr %addresses, ptr %arena, ptr %moves)
  %count_at = getelementptr i64, ptr %call, i64 $CALL.word_count$
  %count = load i64, ptr %count_at
  %bytes = shl i64 %count, 3
  %no_words = icmp eq i64 %count, 0
  br i1 %no_words, label %start, label %write
write:
  %words_at = getelementptr i64, ptr %call, i64 $CALL.words$
  %words = load ptr, ptr %words_at
  %place_at = getelementptr i64, ptr %taken_row, i64 $COPY.place$
  %place = load i64, ptr %place_at
  %copy_at = getelementptr i64, ptr %queue, i64 $QUEUE.copy_to_device$
  %copy_to_device = load ptr, ptr %copy_at
  %written = call i32 %copy_to_device(i64 %place, ptr %words, i64 %bytes, ptr %stream)
  %not_written = icmp ne i32 %written, 0
  br i1 %not_written, label %refuse_write, label %start
refuse_write:
  ; The table holds neither the old addresses nor the new ones.
  %lost_at = getelementptr i64, ptr %taken_row, i64 $COPY.addresses$
  %lost = load ptr, ptr %lost_at
  %lost_arena = getelementptr i64, ptr %lost, i64 %buffers
  store i64 -1, ptr %lost_arena
  ret i32 %written
start:
  %chosen = phi i64 [%copy, %look], [%taken, %miss], [%taken, %write]
  store i64 %chosen, ptr %last_at
  %chosen_word = mul i64 %chosen, $COPY_WORDS$
  %chosen_row = getelementptr i64, ptr %rows, i64 %chosen_word
  %executable_at = getelementptr i64, ptr %chosen_row, i64 $COPY.executable$
  %executable = load ptr, ptr %executable_at
  %launch_at = getelementptr i64, ptr %queue, i64 $QUEUE.launch_graph$
  %launch_graph = load ptr, ptr %launch_at
  %code = call i32 %launch_graph(ptr %executable, ptr %stream)
  ret i32 %code
}

; The driver has read memory that is not pinned when its call returns.
define i32 @write(ptr %queue, i64 %place, i64 %bits) {
  %word = alloca i64
  store i64 %bits, ptr %word
  %enter_at = getelementptr i64, ptr %queue, i64 $QUEUE.set_context$
  %set_context = load ptr, ptr %enter_at
  %context_at = getelementptr i64, ptr %queue, i64 $QUEUE.context$
  %context = load ptr, ptr %context_at
  %entered = call i32 %set_context(ptr %context)
  %not_entered = icmp ne i32 %entered, 0
  br i1 %not_entered, label %refuse, label %copy
copy:
  %stream_at = getelementptr i64, ptr %queue, i64 $QUEUE.stream$
  %stream = load ptr, ptr %stream_at
  %copy_at = getelementptr i64, ptr %queue, i64 $QUEUE.copy_to_device$
  %copy_to_device = load ptr, ptr %copy_at
  %written = call i32 %copy_to_device(i64 %place, ptr %word, i64 8, ptr %stream)
  ret i32 %written
refuse:
  ret i32 %entered
}

define internal i1 @matches(ptr %known, ptr %addresses, ptr %arena, i64 %buffers) {
entry:
  %known_arena_at = getelementptr i64, ptr %known, i64 %buffers
  %known_arena = load ptr, ptr %known_arena_at
  %same_arena = icmp eq ptr %known_arena, %arena
  br i1 %same_arena, label %loop, label %no
loop:
  %i = phi i64 [0, %entry], [%i1, %next]
  %end = icmp eq i64 %i, %buffers
  br i1 %end, label %yes, label %compare
compare:
  %known_at = getelementptr i64, ptr %known, i64 %i
  %known_address = load i64, ptr %known_at
  %address_at = getelementptr i64, ptr %addresses, i64 %i
  %address = load i64, ptr %address_at
  %same = icmp eq i64 %known_address, %address
  br i1 %same, label %next, label %no
next:
  %i1 = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

define internal void @fill(ptr %call, ptr %row, ptr %addresses, ptr %arena, ptr %moves) {
entry:
  %buffers_at = getelementptr i64, ptr %call, i64 $CALL.buffer_count$
  %buffers = load i64, ptr %buffers_at
  %known_at = getelementptr i64, ptr %row, i64 $COPY.addresses$
  %known = load ptr, ptr %known_at
  %bytes = shl i64 %buffers, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %known, ptr %addresses, i64 %bytes, i1 false)
  %moved = icmp ne ptr %moves, null
  %arena_word = ptrtoint ptr %arena to i64
  %remembered = select i1 %moved, i64 -1, i64 %arena_word
  %known_arena_at = getelementptr i64, ptr %known, i64 %buffers
  store i64 %arena_word, ptr %known_arena_at
  %count_at = getelementptr i64, ptr %call, i64 $CALL.word_count$
  %count = load i64, ptr %count_at
  %words_at = getelementptr i64, ptr %call, i64 $CALL.words$
  %words = load ptr, ptr %words_at
  %bases_at = getelementptr i64, ptr %call, i64 $CALL.bases$
  %bases = load ptr, ptr %bases_at
  %offsets_at = getelementptr i64, ptr %call, i64 $CALL.offsets$
  %offsets = load ptr, ptr %offsets_at
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i1, %store]
  %end = icmp eq i64 %i, %count
  br i1 %end, label %exit, label %one
one:
  %base_at = getelementptr i64, ptr %bases, i64 %i
  %base = load i64, ptr %base_at
  %from = getelementptr i64, ptr %known, i64 %base
  %start = load i64, ptr %from
  %offset_at = getelementptr i64, ptr %offsets, i64 %i
  %offset = load i64, ptr %offset_at
  %place = add i64 %start, %offset
  br i1 %moved, label %move, label %store
move:
  %move_at = getelementptr i64, ptr %moves, i64 %i
  %distance = load i64, ptr %move_at
  %moved_place = add i64 %place, %distance
  br label %store
store:
  %value = phi i64 [%place, %one], [%moved_place, %move]
  %word_at = getelementptr i64, ptr %words, i64 %i
  store i64 %value, ptr %word_at
  %i1 = add i64 %i, 1
  br label %loop
exit:
  store i64 %remembered, ptr %known_arena_at
  ret void
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
