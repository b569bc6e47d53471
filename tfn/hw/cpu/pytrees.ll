; Pytrees: arguments taken apart into arrays, results put together from new arrays.
;
; A tree is described by words (`native.TREE`), which a cursor reads.  Its containers are lists,
; tuples, named tuples, dicts with strings as keys, and dataclasses registered as trees, of exactly
; these types; other containers have no entry.
;
; Functions:
;   next_word         the word at the cursor, which moves on
;   next_pointer      the same as a pointer
;   borrow_attribute  an attribute of an object, borrowed; null, with or without an error set
;   has_type          whether an object is of exactly this type
;   gather            stores the leaves of a tree, each in its slot; false if the tree differs
;   new_array         an array that takes over the reference to its buffer; null with an error set
;   set_slot          stores a new reference in a slot of an object
;   build             the tree of the results; null with an error set

define i64 @next_word(ptr %cursor) {
  %at = load ptr, ptr %cursor
  %word = load i64, ptr %at
  %next = getelementptr i64, ptr %at, i64 1
  store ptr %next, ptr %cursor
  ret i64 %word
}

define ptr @next_pointer(ptr %cursor) {
  %word = call i64 @next_word(ptr %cursor)
  %pointer = inttoptr i64 %word to ptr
  ret ptr %pointer
}

; Null also for an attribute that the object computes: there is nothing to borrow it from.
define ptr @borrow_attribute(ptr %object, ptr %name) {
  %value = call ptr @PyObject_GetAttr(ptr %object, ptr %name)
  %missing = icmp eq ptr %value, null
  br i1 %missing, label %none, label %stored
stored:
  %references = load i64, ptr %value
  call void @Py_DecRef(ptr %value)
  %kept_by_object = icmp ugt i64 %references, 1
  br i1 %kept_by_object, label %exit, label %none
none:
  ret ptr null
exit:
  ret ptr %value
}

define i1 @has_type(ptr %object, ptr %type) {
  %type_at = getelementptr i8, ptr %object, i64 8
  %own = load ptr, ptr %type_at
  %same = icmp eq ptr %own, %type
  ret i1 %same
}

define i1 @gather(ptr %object, ptr %cursor, ptr %leaves) #0 {
entry:
  %code = call i64 @next_word(ptr %cursor)
  switch i64 %code, label %leaf [i64 $TREE.none$, label %nothing i64 $TREE.list$, label %list
                                 i64 $TREE.tuple$, label %tuple i64 $TREE.dict$, label %dict
                                 i64 $TREE.dataclass$, label %fields]
leaf:
  %number = call i64 @next_word(ptr %cursor)
  %slot = getelementptr ptr, ptr %leaves, i64 %number
  store ptr %object, ptr %slot
  ret i1 true
nothing:
  %none = load ptr, ptr $STATE.none$
  %is_none = icmp eq ptr %object, %none
  ret i1 %is_none
list:
  %list_type = load ptr, ptr $STATE.list_type$
  %is_list = call i1 @has_type(ptr %object, ptr %list_type)
  br i1 %is_list, label %list_size, label %differs
list_size:
  %list_expected = call i64 @next_word(ptr %cursor)
  %list_length = call i64 @PyList_Size(ptr %object)
  %list_same = icmp eq i64 %list_expected, %list_length
  br i1 %list_same, label %list_loop, label %differs
list_loop:
  %i = phi i64 [0, %list_size], [%i1, %list_next]
  %list_end = icmp eq i64 %i, %list_length
  br i1 %list_end, label %fits, label %list_item
list_item:
  %item = call ptr @PyList_GetItem(ptr %object, i64 %i)
  %item_absent = icmp eq ptr %item, null
  br i1 %item_absent, label %absent, label %list_inside
list_inside:
  %item_fits = call i1 @gather(ptr %item, ptr %cursor, ptr %leaves)
  br i1 %item_fits, label %list_next, label %differs
list_next:
  %i1 = add i64 %i, 1
  br label %list_loop
tuple:
  %tuple_type = call ptr @next_pointer(ptr %cursor)
  %is_tuple = call i1 @has_type(ptr %object, ptr %tuple_type)
  br i1 %is_tuple, label %tuple_size, label %differs
tuple_size:
  %tuple_expected = call i64 @next_word(ptr %cursor)
  %tuple_length = call i64 @PyTuple_Size(ptr %object)
  %tuple_same = icmp eq i64 %tuple_expected, %tuple_length
  br i1 %tuple_same, label %tuple_loop, label %differs
tuple_loop:
  %j = phi i64 [0, %tuple_size], [%j1, %tuple_next]
  %tuple_end = icmp eq i64 %j, %tuple_length
  br i1 %tuple_end, label %fits, label %tuple_item
tuple_item:
  %member = call ptr @PyTuple_GetItem(ptr %object, i64 %j)
  %member_fits = call i1 @gather(ptr %member, ptr %cursor, ptr %leaves)
  br i1 %member_fits, label %tuple_next, label %differs
tuple_next:
  %j1 = add i64 %j, 1
  br label %tuple_loop
dict:
  %dict_type = load ptr, ptr $STATE.dict_type$
  %is_dict = call i1 @has_type(ptr %object, ptr %dict_type)
  br i1 %is_dict, label %dict_size, label %differs
dict_size:
  %dict_expected = call i64 @next_word(ptr %cursor)
  %dict_length = call i64 @PyDict_Size(ptr %object)
  %dict_same = icmp eq i64 %dict_expected, %dict_length
  br i1 %dict_same, label %dict_loop, label %differs
dict_loop:
  %k = phi i64 [0, %dict_size], [%k1, %dict_next]
  %dict_end = icmp eq i64 %k, %dict_length
  br i1 %dict_end, label %fits, label %dict_item
dict_item:
  %key = call ptr @next_pointer(ptr %cursor)
  %value = call ptr @PyDict_GetItemWithError(ptr %object, ptr %key)
  %missing = icmp eq ptr %value, null
  br i1 %missing, label %absent, label %dict_inside
dict_inside:
  %value_fits = call i1 @gather(ptr %value, ptr %cursor, ptr %leaves)
  br i1 %value_fits, label %dict_next, label %differs
dict_next:
  %k1 = add i64 %k, 1
  br label %dict_loop
fields:
  %class = call ptr @next_pointer(ptr %cursor)
  %is_class = call i1 @has_type(ptr %object, ptr %class)
  br i1 %is_class, label %statics, label %differs
statics:
  %statics_count = call i64 @next_word(ptr %cursor)
  br label %static_loop
static_loop:
  %m = phi i64 [0, %statics], [%m1, %static_next]
  %static_end = icmp eq i64 %m, %statics_count
  br i1 %static_end, label %members, label %static_item
static_item:
  %static_name = call ptr @next_pointer(ptr %cursor)
  %static_expected = call ptr @next_pointer(ptr %cursor)
  %static_value = call ptr @borrow_attribute(ptr %object, ptr %static_name)
  %static_same = icmp eq ptr %static_expected, %static_value
  br i1 %static_same, label %static_next, label %absent
static_next:
  %m1 = add i64 %m, 1
  br label %static_loop
members:
  %members_count = call i64 @next_word(ptr %cursor)
  br label %member_loop
member_loop:
  %f = phi i64 [0, %members], [%f1, %member_next]
  %member_end = icmp eq i64 %f, %members_count
  br i1 %member_end, label %fits, label %member_item
member_item:
  %name = call ptr @next_pointer(ptr %cursor)
  %field = call ptr @borrow_attribute(ptr %object, ptr %name)
  %field_absent = icmp eq ptr %field, null
  br i1 %field_absent, label %absent, label %member_inside
member_inside:
  %field_fits = call i1 @gather(ptr %field, ptr %cursor, ptr %leaves)
  br i1 %field_fits, label %member_next, label %differs
member_next:
  %f1 = add i64 %f, 1
  br label %member_loop
absent:
  call void @PyErr_Clear()
  ret i1 false
differs:
  ret i1 false
fits:
  ret i1 true
}

define ptr @new_array(ptr %row, ptr %buffer_slot) {
  %type = load ptr, ptr $STATE.array_type$
  %array = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %failed = icmp eq ptr %array, null
  br i1 %failed, label %exit, label %fill
fill:
  %buffer = load ptr, ptr %buffer_slot
  store ptr null, ptr %buffer_slot
  %at_buffer = load i64, ptr $STATE.offset_buffer$
  %buffer_at = getelementptr i8, ptr %array, i64 %at_buffer
  store ptr %buffer, ptr %buffer_at
  %kind_in = getelementptr i64, ptr %row, i64 $OUTPUT.kind$
  %kind = load ptr, ptr %kind_in
  %at_kind = load i64, ptr $STATE.offset_kind$
  call void @set_slot(ptr %array, i64 %at_kind, ptr %kind)
  %shape_in = getelementptr i64, ptr %row, i64 $OUTPUT.shape$
  %shape = load ptr, ptr %shape_in
  %at_shape = load i64, ptr $STATE.offset_shape$
  call void @set_slot(ptr %array, i64 %at_shape, ptr %shape)
  %dtype_in = getelementptr i64, ptr %row, i64 $OUTPUT.dtype$
  %dtype = load ptr, ptr %dtype_in
  %at_dtype = load i64, ptr $STATE.offset_dtype$
  call void @set_slot(ptr %array, i64 %at_dtype, ptr %dtype)
  %weak_in = getelementptr i64, ptr %row, i64 $OUTPUT.weak$
  %weak = load ptr, ptr %weak_in
  %at_weak = load i64, ptr $STATE.offset_weak_type$
  call void @set_slot(ptr %array, i64 %at_weak, ptr %weak)
  %true = load ptr, ptr $STATE.true$
  %at_known = load i64, ptr $STATE.offset_known$
  call void @set_slot(ptr %array, i64 %at_known, ptr %true)
  %none = load ptr, ptr $STATE.none$
  %at_uop = load i64, ptr $STATE.offset_uop$
  call void @set_slot(ptr %array, i64 %at_uop, ptr %none)
  %at_owner = load i64, ptr $STATE.offset_owner$
  call void @set_slot(ptr %array, i64 %at_owner, ptr %none)
  br label %exit
exit:
  ret ptr %array
}

define void @set_slot(ptr %object, i64 %number, ptr %value) {
  %slot = getelementptr i8, ptr %object, i64 %number
  store ptr %value, ptr %slot
  call void @Py_IncRef(ptr %value)
  ret void
}

; Each array is made where it belongs; those made before a failure die with their containers.
define ptr @build(ptr %cursor, ptr %rows, ptr %blocks) #0 {
entry:
  %code = call i64 @next_word(ptr %cursor)
  switch i64 %code, label %leaf [i64 $TREE.none$, label %nothing i64 $TREE.list$, label %list
                                 i64 $TREE.tuple$, label %tuple i64 $TREE.dict$, label %dict
                                 i64 $TREE.dataclass$, label %fields]
leaf:
  %number = call i64 @next_word(ptr %cursor)
  %row_number = mul i64 %number, $OUTPUT_WORDS$
  %row = getelementptr i64, ptr %rows, i64 %row_number
  %slot = getelementptr ptr, ptr %blocks, i64 %number
  %array = call ptr @new_array(ptr %row, ptr %slot)
  ret ptr %array
nothing:
  %none = call ptr @new_none()
  ret ptr %none
list:
  %list_size = call i64 @next_word(ptr %cursor)
  %new_list = call ptr @PyList_New(i64 %list_size)
  %no_list = icmp eq ptr %new_list, null
  br i1 %no_list, label %failed, label %list_loop
list_loop:
  %i = phi i64 [0, %list], [%i1, %list_next]
  %list_end = icmp eq i64 %i, %list_size
  br i1 %list_end, label %list_done, label %list_item
list_item:
  %item = call ptr @build(ptr %cursor, ptr %rows, ptr %blocks)
  %no_item = icmp eq ptr %item, null
  br i1 %no_item, label %list_failed, label %list_next
list_next:
  call i32 @PyList_SetItem(ptr %new_list, i64 %i, ptr %item)
  %i1 = add i64 %i, 1
  br label %list_loop
list_failed:
  call void @Py_DecRef(ptr %new_list)
  ret ptr null
list_done:
  ret ptr %new_list
tuple:
  %tuple_type = call ptr @next_pointer(ptr %cursor)
  %tuple_size = call i64 @next_word(ptr %cursor)
  %new_tuple = call ptr @PyTuple_New(i64 %tuple_size)
  %no_tuple = icmp eq ptr %new_tuple, null
  br i1 %no_tuple, label %failed, label %tuple_loop
tuple_loop:
  %j = phi i64 [0, %tuple], [%j1, %tuple_next]
  %tuple_end = icmp eq i64 %j, %tuple_size
  br i1 %tuple_end, label %tuple_done, label %tuple_item
tuple_item:
  %member = call ptr @build(ptr %cursor, ptr %rows, ptr %blocks)
  %no_member = icmp eq ptr %member, null
  br i1 %no_member, label %tuple_failed, label %tuple_next
tuple_next:
  call i32 @PyTuple_SetItem(ptr %new_tuple, i64 %j, ptr %member)
  %j1 = add i64 %j, 1
  br label %tuple_loop
tuple_failed:
  call void @Py_DecRef(ptr %new_tuple)
  ret ptr null
tuple_done:
  %plain_type = load ptr, ptr $STATE.tuple_type$
  %plain = icmp eq ptr %tuple_type, %plain_type
  br i1 %plain, label %tuple_plain, label %tuple_named
tuple_plain:
  ret ptr %new_tuple
tuple_named:
  %maker = load ptr, ptr $STATE.tuple_new$
  %named = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(
      ptr %maker, ptr %tuple_type, ptr %new_tuple, ptr null)
  call void @Py_DecRef(ptr %new_tuple)
  ret ptr %named
dict:
  %dict_size = call i64 @next_word(ptr %cursor)
  %new_dict = call ptr @PyDict_New()
  %no_dict = icmp eq ptr %new_dict, null
  br i1 %no_dict, label %failed, label %dict_loop
dict_loop:
  %k = phi i64 [0, %dict], [%k1, %dict_next]
  %dict_end = icmp eq i64 %k, %dict_size
  br i1 %dict_end, label %dict_done, label %dict_item
dict_item:
  %key = call ptr @next_pointer(ptr %cursor)
  %value = call ptr @build(ptr %cursor, ptr %rows, ptr %blocks)
  %no_value = icmp eq ptr %value, null
  br i1 %no_value, label %dict_failed, label %dict_insert
dict_insert:
  %status = call i32 @PyDict_SetItem(ptr %new_dict, ptr %key, ptr %value)
  call void @Py_DecRef(ptr %value)
  %not_inserted = icmp ne i32 %status, 0
  br i1 %not_inserted, label %dict_failed, label %dict_next
dict_next:
  %k1 = add i64 %k, 1
  br label %dict_loop
dict_failed:
  call void @Py_DecRef(ptr %new_dict)
  ret ptr null
dict_done:
  ret ptr %new_dict
fields:
  %class = call ptr @next_pointer(ptr %cursor)
  %object = call ptr @PyType_GenericAlloc(ptr %class, i64 0)
  %no_object = icmp eq ptr %object, null
  br i1 %no_object, label %failed, label %statics
statics:
  %statics_count = call i64 @next_word(ptr %cursor)
  br label %static_loop
static_loop:
  %m = phi i64 [0, %statics], [%m1, %static_next]
  %static_end = icmp eq i64 %m, %statics_count
  br i1 %static_end, label %members, label %static_item
static_item:
  %static_name = call ptr @next_pointer(ptr %cursor)
  %static = call ptr @next_pointer(ptr %cursor)
  %static_status = call i32 @PyObject_GenericSetAttr(ptr %object, ptr %static_name, ptr %static)
  %static_not_set = icmp ne i32 %static_status, 0
  br i1 %static_not_set, label %fields_failed, label %static_next
static_next:
  %m1 = add i64 %m, 1
  br label %static_loop
members:
  %members_count = call i64 @next_word(ptr %cursor)
  br label %member_loop
member_loop:
  %f = phi i64 [0, %members], [%f1, %member_next]
  %member_end = icmp eq i64 %f, %members_count
  br i1 %member_end, label %fields_done, label %member_item
member_item:
  %name = call ptr @next_pointer(ptr %cursor)
  %field = call ptr @build(ptr %cursor, ptr %rows, ptr %blocks)
  %no_field = icmp eq ptr %field, null
  br i1 %no_field, label %fields_failed, label %member_insert
member_insert:
  %field_status = call i32 @PyObject_GenericSetAttr(ptr %object, ptr %name, ptr %field)
  call void @Py_DecRef(ptr %field)
  %field_not_set = icmp ne i32 %field_status, 0
  br i1 %field_not_set, label %fields_failed, label %member_next
member_next:
  %f1 = add i64 %f, 1
  br label %member_loop
fields_failed:
  call void @Py_DecRef(ptr %object)
  ret ptr null
fields_done:
  ret ptr %object
failed:
  ret ptr null
}

declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i64 @PyDict_Size(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare ptr @PyDict_New()
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare i32 @PyObject_GenericSetAttr(ptr, ptr, ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare void @PyErr_Clear()
