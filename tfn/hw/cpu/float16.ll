; Conversions from and to float16, under the names by which LLVM calls them.
;
; All round to nearest, ties to even, and keep denormal numbers.  From float64 the way leads over
; float32 rounded to odd: the last bit is set if anything was lost, so that the second rounding is
; as good as a single one.
;
; Functions:
;   round_to_odd   float64 to float32, rounded to odd
;   __truncsfhf2   float32 to float16
;   __extendhfsf2  float16 to float32
;   __truncdfhf2   float64 to float16
;
; Source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms
; using rounding to odd", IEEE Transactions on Computers 57(4), 2008.

define float @round_to_odd(double %x) {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %lost = fcmp one double %x, %back
  %size_x = call double @llvm.fabs.f64(double %x)
  %size_back = call double @llvm.fabs.f64(double %back)
  %above = fcmp ogt double %size_back, %size_x
  %bits = bitcast float %near to i32
  %less = sub i32 %bits, 1
  %toward_zero = select i1 %above, i32 %less, i32 %bits
  %last = zext i1 %lost to i32
  %odd = or i32 %toward_zero, %last
  %y = bitcast i32 %odd to float
  ret float %y
}

define half @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768

  ; below 2^-14, a half counts in steps of 2^-24, as float does from 0.5 to 1
  %small = bitcast i32 %size to float
  %shifted = fadd float %small, 5.0e-1
  %shifted_bits = bitcast float %shifted to i32
  %denormal = sub i32 %shifted_bits, 1056964608

  %truncated = lshr i32 %size, 13
  %even = and i32 %truncated, 1
  %biased = sub i32 %size, 939520001
  %rounded = add i32 %biased, %even
  %normal = lshr i32 %rounded, 13

  %payload = and i32 %truncated, 511
  %nan = or i32 %payload, 32256

  %is_small = icmp ult i32 %size, 947912704
  %finite = select i1 %is_small, i32 %denormal, i32 %normal
  %is_big = icmp uge i32 %size, 1199566848
  %number = select i1 %is_big, i32 31744, i32 %finite
  %is_nan = icmp ugt i32 %size, 2139095040
  %any = select i1 %is_nan, i32 %nan, i32 %number
  %signed = or i32 %any, %sign
  %short = trunc i32 %signed to i16
  %y = bitcast i16 %short to half
  ret half %y
}

define float @__extendhfsf2(half %x) {
  %short = bitcast half %x to i16
  %bits = zext i16 %short to i32
  %size = and i32 %bits, 32767
  %high = and i32 %bits, 32768
  %sign = shl i32 %high, 16
  %moved = shl i32 %size, 13
  %normal = add i32 %moved, 939524096

  %count = uitofp i32 %size to float
  %denormal_value = fmul float %count, 0x3E70000000000000
  %denormal = bitcast float %denormal_value to i32

  %special = or i32 %moved, 2139095040
  %is_nan = icmp ugt i32 %size, 31744
  %quiet = select i1 %is_nan, i32 4194304, i32 0
  %special1 = or i32 %special, %quiet

  %is_small = icmp ult i32 %size, 1024
  %finite = select i1 %is_small, i32 %denormal, i32 %normal
  %is_special = icmp uge i32 %size, 31744
  %any = select i1 %is_special, i32 %special1, i32 %finite
  %signed = or i32 %any, %sign
  %y = bitcast i32 %signed to float
  ret float %y
}

define half @__truncdfhf2(double %x) {
  %odd = call float @round_to_odd(double %x)
  %y = call half @__truncsfhf2(float %odd)
  ret half %y
}
