; The operators of arrays, from the slots of their type to programs, without a frame of Python.
;
;   x * 2.0   nb_multiply -> the row of (multiply, kind of x, float) -> the entry of its program
;
; An operation that has no row yet is given to Python, which runs it and adds the row.  One that no
; row serves is the method of the class, as in the slots that the interpreter makes.
;
; Functions:
;   operate      the result of an operator; NotImplemented, and nothing done, if no row serves
;   call_method  the result of the method of an operator, or of the reflected one
;   operand_key  what an operand counts as; 0 for what no row serves
;   operand      an operand of the program
;   number_bits  a Python number in the dtype that a program takes; false for one that it has not
; and for each slot one of `operator_slot.ll`.

@operators = global [$OPERATORS_WORDS$ x i64] zeroinitializer, align 64

; An array counts as its kind and weakness, a number as its type.  An integer exponent counts as
; itself, because programs are made for each: it is one of those that the interpreter keeps.
define internal i64 @operand_key(ptr %object, i64 %operator) {
entry:
  %overflow = alloca i32
  %array_type = load ptr, ptr $STATE.array_type$
  %is_array = call i1 @has_type(ptr %object, ptr %array_type)
  br i1 %is_array, label %array, label %number
array:
  %at_kind = load i64, ptr $STATE.offset_kind$
  %kind_at = getelementptr i8, ptr %object, i64 %at_kind
  %kind = load ptr, ptr %kind_at
  %none = load ptr, ptr $STATE.none$
  %traced = icmp eq ptr %kind, %none
  br i1 %traced, label %unknown, label %concrete
concrete:
  %kind_word = ptrtoint ptr %kind to i64
  %at_weak = load i64, ptr $STATE.offset_weak_type$
  %weak_at = getelementptr i8, ptr %object, i64 %at_weak
  %weak = load ptr, ptr %weak_at
  %true = load ptr, ptr $STATE.true$
  %is_weak = icmp eq ptr %weak, %true
  %weakness = zext i1 %is_weak to i64
  %array_key = add i64 %kind_word, %weakness
  ret i64 %array_key
number:
  %float_type = load ptr, ptr $OPERATORS.float_type$
  %float_word = ptrtoint ptr %float_type to i64
  %is_float = call i1 @has_type(ptr %object, ptr %float_type)
  br i1 %is_float, label %float, label %maybe_int
float:
  ret i64 %float_word
maybe_int:
  %int_type = load ptr, ptr $OPERATORS.int_type$
  %is_int = call i1 @has_type(ptr %object, ptr %int_type)
  br i1 %is_int, label %int, label %unknown
int:
  %int_word = ptrtoint ptr %int_type to i64
  %is_power = icmp eq i64 %operator, $POWER$
  br i1 %is_power, label %exponent, label %any_int
any_int:
  ret i64 %int_word
exponent:
  %value = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)
  %not_below = icmp sge i64 %value, -5
  %not_above = icmp sle i64 %value, 256
  %within = and i1 %not_below, %not_above
  %overflowed = load i32, ptr %overflow
  %small = icmp eq i32 %overflowed, 0
  %is_kept = and i1 %within, %small
  %object_word = ptrtoint ptr %object to i64
  %exponent_word = select i1 %is_kept, i64 %object_word, i64 0
  ret i64 %exponent_word
unknown:
  ret i64 0
}

define internal i1 @number_bits(ptr %object, ptr %row, ptr %bits) {
entry:
  %overflow = alloca i32
  %type_at = getelementptr i64, ptr %row, i64 $OPERATOR.number_type$
  %type = load i64, ptr %type_at
  %is_integer = icmp eq i64 %type, $NUMBER.integer$
  %float_type = load ptr, ptr $OPERATORS.float_type$
  %is_float = call i1 @has_type(ptr %object, ptr %float_type)
  br i1 %is_float, label %float, label %int
float:
  br i1 %is_integer, label %unfit, label %read_float
read_float:
  %float_value = call double @PyFloat_AsDouble(ptr %object)
  br label %round
int:
  %int_value = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)
  %overflowed = load i32, ptr %overflow
  %small = icmp eq i32 %overflowed, 0
  %low_at = getelementptr i64, ptr %row, i64 $OPERATOR.low$
  %low = load i64, ptr %low_at
  %high_at = getelementptr i64, ptr %row, i64 $OPERATOR.high$
  %high = load i64, ptr %high_at
  %not_below = icmp sge i64 %int_value, %low
  %not_above = icmp sle i64 %int_value, %high
  %within = and i1 %not_below, %not_above
  %has = and i1 %small, %within
  br i1 %has, label %int_fits, label %unfit
int_fits:
  br i1 %is_integer, label %store, label %int_to_float
int_to_float:
  %exact = sitofp i64 %int_value to double
  br label %round
round:
  %value = phi double [%float_value, %read_float], [%exact, %int_to_float]
  %is_double = icmp eq i64 %type, $NUMBER.double$
  br i1 %is_double, label %double, label %single
double:
  %double_bits = bitcast double %value to i64
  br label %store
single:
  %rounded = fptrunc double %value to float
  %single_word = bitcast float %rounded to i32
  %single_bits = zext i32 %single_word to i64
  br label %store
store:
  %stored = phi i64 [%int_value, %int_fits], [%double_bits, %double], [%single_bits, %single]
  store i64 %stored, ptr %bits
  ret i1 true
unfit:
  ret i1 false
}

define internal ptr @operate(ptr %left, ptr %right, i64 %operator) {
entry:
  %arguments = alloca [2 x ptr]
  %bits = alloca i64
  %missed = load ptr, ptr $STATE.not_implemented$
  %enabled = load i64, ptr $STATE.enabled$
  %on = icmp ne i64 %enabled, 0
  %known = icmp sge i64 %operator, 0
  %serves = and i1 %on, %known
  br i1 %serves, label %left_operand, label %miss
left_operand:
  %left_key = call i64 @operand_key(ptr %left, i64 %operator)
  %left_unknown = icmp eq i64 %left_key, 0
  br i1 %left_unknown, label %miss, label %may_have_right
may_have_right:
  %unary = icmp eq ptr %right, null
  br i1 %unary, label %look_up, label %right_operand
right_operand:
  %right_operand_key = call i64 @operand_key(ptr %right, i64 %operator)
  %right_unknown = icmp eq i64 %right_operand_key, 0
  br i1 %right_unknown, label %miss, label %look_up

; Operations are recorded, not run, while the list of traces that record all of them has any.
look_up:
  %right_key = phi i64 [0, %may_have_right], [%right_operand_key, %right_operand]
  %recorders = load ptr, ptr $OPERATORS.recorders$
  %recording = call i64 @PyList_Size(ptr %recorders)
  %runs = icmp eq i64 %recording, 0
  br i1 %runs, label %hash, label %miss
hash:
  %rows = load ptr, ptr $OPERATORS.rows$
  %mask = load i64, ptr $OPERATORS.mask$
  %left_hash = mul i64 %left_key, -7046029254386353131
  %right_hash = mul i64 %right_key, -4417276706812531889
  %both_hash = xor i64 %left_hash, %right_hash
  %operator_hash = mul i64 %operator, 1609587929392839161
  %all_hash = add i64 %both_hash, %operator_hash
  %high_hash = lshr i64 %all_hash, 32
  br label %probe
probe:
  %at = phi i64 [%high_hash, %hash], [%next, %other]
  %place = and i64 %at, %mask
  %word = mul i64 %place, $OPERATOR_WORDS$
  %row = getelementptr i64, ptr %rows, i64 %word
  %row_left = load i64, ptr %row
  %empty = icmp eq i64 %row_left, 0
  br i1 %empty, label %learn, label %compare
compare:
  %row_right_at = getelementptr i64, ptr %row, i64 $OPERATOR.right$
  %row_right = load i64, ptr %row_right_at
  %row_operator_at = getelementptr i64, ptr %row, i64 $OPERATOR.operator$
  %row_operator = load i64, ptr %row_operator_at
  %same_left = icmp eq i64 %row_left, %left_key
  %same_right = icmp eq i64 %row_right, %right_key
  %same_operator = icmp eq i64 %row_operator, %operator
  %same_operands = and i1 %same_left, %same_right
  %same = and i1 %same_operands, %same_operator
  br i1 %same, label %found, label %other
other:
  %next = add i64 %place, 1
  br label %probe

found:
  %owner_at = getelementptr i64, ptr %row, i64 $OPERATOR.owner$
  %owner = load ptr, ptr %owner_at
  %programless = icmp eq ptr %owner, null
  br i1 %programless, label %miss, label %may_have_number
may_have_number:
  %number_at = getelementptr i64, ptr %row, i64 $OPERATOR.number$
  %number = load ptr, ptr %number_at
  %numberless = icmp eq ptr %number, null
  br i1 %numberless, label %arrange, label %convert

; The array of the row takes the number, unless a result or a thread has its buffer.
convert:
  %number_left_at = getelementptr i64, ptr %row, i64 $OPERATOR.number_left$
  %number_left_word = load i64, ptr %number_left_at
  %number_left = icmp ne i64 %number_left_word, 0
  %given = select i1 %number_left, ptr %left, ptr %right
  %fits = call i1 @number_bits(ptr %given, ptr %row, ptr %bits)
  br i1 %fits, label %own_buffer, label %miss
own_buffer:
  %at_buffer = load i64, ptr $STATE.offset_buffer$
  %buffer_at = getelementptr i8, ptr %number, i64 %at_buffer
  %buffer = load ptr, ptr %buffer_at
  %references = load i64, ptr %buffer
  %free = icmp eq i64 %references, 1
  br i1 %free, label %write, label %miss
write:
  %address_at = getelementptr i8, ptr %buffer, i64 $BUFFER.address$
  %address = load ptr, ptr %address_at
  %value = load i64, ptr %bits
  %writer = load ptr, ptr $STATE.write_number$
  %reachable = icmp eq ptr %writer, null
  br i1 %reachable, label %store, label %enqueue
store:
  store i64 %value, ptr %address
  br label %arrange
enqueue:
  %queue = load ptr, ptr $STATE.queue$
  %code = call i32 %writer(ptr %queue, ptr %address, i64 %value)
  %enqueued = icmp eq i32 %code, 0
  br i1 %enqueued, label %arrange, label %miss

arrange:
  %second_argument = getelementptr ptr, ptr %arguments, i64 1
  %first_at = getelementptr i64, ptr %row, i64 $OPERATOR.first$
  %first = load i64, ptr %first_at
  %first_object = call ptr @operand(i64 %first, ptr %left, ptr %right, ptr %number)
  store ptr %first_object, ptr %arguments
  %second_at = getelementptr i64, ptr %row, i64 $OPERATOR.second$
  %second = load i64, ptr %second_at
  %second_object = call ptr @operand(i64 %second, ptr %left, ptr %right, ptr %number)
  store ptr %second_object, ptr %second_argument
  %count_at = getelementptr i64, ptr %row, i64 $OPERATOR.count$
  %count = load i64, ptr %count_at
  call void @Py_IncRef(ptr %owner)
  %result = call ptr @call(ptr %owner, ptr %arguments, i64 %count)
  call void @Py_DecRef(ptr %owner)
  %refused = icmp eq ptr %result, %missed
  br i1 %refused, label %drop_refusal, label %exit
drop_refusal:
  call void @Py_DecRef(ptr %missed)
  br label %miss
exit:
  ret ptr %result
miss:
  ret ptr %missed

learn:
  %learner = load ptr, ptr $OPERATORS.learn$
  %operator_object = call ptr @PyLong_FromLongLong(i64 %operator)
  %none = load ptr, ptr $STATE.none$
  %right_object = select i1 %unary, ptr %none, ptr %right
  %learnt = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(
      ptr %learner, ptr %operator_object, ptr %left, ptr %right_object, ptr null)
  call void @Py_DecRef(ptr %operator_object)
  ret ptr %learnt
}

define internal ptr @call_method(ptr %left, ptr %right, i64 %operator) {
  %known = icmp sge i64 %operator, 0
  br i1 %known, label %names, label %refuse
names:
  %pair = shl i64 %operator, 1
  %first_name_at = getelementptr ptr, ptr $METHODS$, i64 %pair
  %array_type = load ptr, ptr $STATE.array_type$
  %is_array = call i1 @has_type(ptr %left, ptr %array_type)
  br i1 %is_array, label %own, label %reflected
own:
  %name = load ptr, ptr %first_name_at
  %result = call ptr (ptr, ptr, ...) @PyObject_CallMethodObjArgs(
      ptr %left, ptr %name, ptr %right, ptr null)
  ret ptr %result
reflected:
  %second_name_at = getelementptr ptr, ptr %first_name_at, i64 1
  %second_name = load ptr, ptr %second_name_at
  %reflected_result = call ptr (ptr, ptr, ...) @PyObject_CallMethodObjArgs(
      ptr %right, ptr %second_name, ptr %left, ptr null)
  ret ptr %reflected_result
refuse:
  %refused = call ptr @refusal()
  ret ptr %refused
}

define internal ptr @operand(i64 %source, ptr %left, ptr %right, ptr %number) {
  %is_left = icmp eq i64 %source, $SOURCE.left$
  %is_right = icmp eq i64 %source, $SOURCE.right$
  %other = select i1 %is_right, ptr %right, ptr %number
  %object = select i1 %is_left, ptr %left, ptr %other
  ret ptr %object
}

declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyObject_CallMethodObjArgs(ptr, ptr, ...)
