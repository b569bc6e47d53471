; Conversions to bfloat16, under the names by which LLVM calls them; behind float16.ll, whose
; `round_to_odd` they call.
;
; Functions:
;   __truncsfbf2  float32 to bfloat16
;   __truncdfbf2  float64 to bfloat16

define bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %even = and i32 %high, 1
  %half = add i32 %bits, 32767
  %rounded = add i32 %half, %even
  %number = lshr i32 %rounded, 16
  %nan = or i32 %high, 64
  %is_nan = fcmp uno float %x, %x
  %any = select i1 %is_nan, i32 %nan, i32 %number
  %short = trunc i32 %any to i16
  %y = bitcast i16 %short to bfloat
  ret bfloat %y
}

define bfloat @__truncdfbf2(double %x) {
  %odd = call float @round_to_odd(double %x)
  %y = call bfloat @__truncsfbf2(float %odd)
  ret bfloat %y
}
