; A slot of the type of arrays, made once for each row of `native.SLOTS`.
;
; Functions:
;   operator_$NAME$  the operator, from the table or by its method

define ptr @operator_$NAME$($PARAMETERS$) {
  $NUMBER$
  %result = call ptr @operate(ptr %left, ptr $RIGHT$, i64 %number)
  %missed = load ptr, ptr $STATE.not_implemented$
  %missing = icmp eq ptr %result, %missed
  br i1 %missing, label %method, label %exit
method:
  %answer = call ptr @call_method(ptr %left, ptr $RIGHT$, i64 %number)
  ret ptr %answer
exit:
  ret ptr %result
}
