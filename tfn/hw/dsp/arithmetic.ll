; Functions that Hexagon's scalar core has no instruction for, under the names by which LLVM calls
; them: division, square root and fma of float64, square root of float32, division of integers.
; Floats are rounded correctly, to the nearest, halves to even; subnormal numbers are exact.
;
;   __hexagon_divdf3    x / y in float64, a digit at a time
;   sqrt                the square root in float64, a digit at a time
;   __hexagon_sqrtf     the square root in float32
;   fma                 x * y + z in float64, rounded once
;   __hexagon_udivdi3   n / d, unsigned, 64 bits
;   __hexagon_umoddi3   the remainder, unsigned, 64 bits
;   __hexagon_divdi3    n / d, signed, 64 bits
;   __hexagon_moddi3    the remainder, signed, 64 bits
;   __hexagon_udivsi3   n / d, unsigned, 32 bits
;   __hexagon_umodsi3   the remainder, unsigned, 32 bits
;   __hexagon_divsi3    n / d, signed, 32 bits
;   __hexagon_modsi3    the remainder, signed, 32 bits
;   divided             quotient and remainder, unsigned, 64 bits
;   unpacked            digits and exponent of a number
;   exponent            the biased exponent of a number
;   rounded             a number of digits and an exponent
;   shifted_sticky      a shift to the right that keeps whether bits are lost
;
; A finite number is unpacked as m * 2**(e - 52) with m from 2**52 to 2**53 - 1.  Results come to
; @rounded as m * 2**(e - 62) with m from 2**62 to 2**63 - 1, whose last bit is set if digits
; after it are lost.

declare i64 @llvm.ctlz.i64(i64, i1)
declare i128 @llvm.ctlz.i128(i128, i1)
declare i64 @llvm.umin.i64(i64, i64)

; x >> n; the last bit is set if a bit is lost.
define internal i64 @shifted_sticky(i64 %x, i64 %n) {
  %most = call i64 @llvm.umin.i64(i64 %n, i64 63)
  %y = lshr i64 %x, %most
  %back = shl i64 %y, %most
  %lost = icmp ne i64 %back, %x
  %bit = zext i1 %lost to i64
  %z = or i64 %y, %bit
  ret i64 %z
}

define internal double @rounded(i64 %sign, i64 %e, i64 %m) {
  %biased = add i64 %e, 1023
  %small = icmp slt i64 %biased, 1
  %under = sub i64 1, %biased
  %denormal = call i64 @shifted_sticky(i64 %m, i64 %under)
  %digits = select i1 %small, i64 %denormal, i64 %m
  %rest = and i64 %digits, 1023
  %kept = lshr i64 %digits, 10
  %odd = and i64 %kept, 1
  %more = add i64 %rest, %odd
  %up = icmp ugt i64 %more, 512
  %one = zext i1 %up to i64
  %near = add i64 %kept, %one
  %before = sub i64 %biased, 1
  %exponent = select i1 %small, i64 0, i64 %before
  %high = shl i64 %exponent, 52
  ; The leading digit of a normal number, or a carry, adds one to the exponent.
  %bits = add i64 %high, %near
  %over = icmp sgt i64 %biased, 2046
  %limit = icmp uge i64 %bits, 9218868437227405312
  %infinite = or i1 %over, %limit
  %value = select i1 %infinite, i64 9218868437227405312, i64 %bits
  %signed = or i64 %value, %sign
  %result = bitcast i64 %signed to double
  ret double %result
}

; The biased exponent of a number.
define internal i64 @exponent(i64 %bits) {
  %shifted = lshr i64 %bits, 52
  %e = and i64 %shifted, 2047
  ret i64 %e
}

; m and e of a finite number that is not 0.
define internal { i64, i64 } @unpacked(i64 %bits) {
  %biased = call i64 @exponent(i64 %bits)
  %fraction = and i64 %bits, 4503599627370495
  %normal = icmp ne i64 %biased, 0
  %whole = or i64 %fraction, 4503599627370496
  %zeros = call i64 @llvm.ctlz.i64(i64 %fraction, i1 false)
  %shift = sub i64 %zeros, 11
  %safe = and i64 %shift, 63
  %moved = shl i64 %fraction, %safe
  %m = select i1 %normal, i64 %whole, i64 %moved
  %of_normal = sub i64 %biased, 1023
  %of_small = sub i64 -1022, %shift
  %e = select i1 %normal, i64 %of_normal, i64 %of_small
  %pair = insertvalue { i64, i64 } poison, i64 %m, 0
  %result = insertvalue { i64, i64 } %pair, i64 %e, 1
  ret { i64, i64 } %result
}

define double @__hexagon_divdf3(double %x, double %y) {
  %a = bitcast double %x to i64
  %b = bitcast double %y to i64
  %both = xor i64 %a, %b
  %sign = and i64 %both, -9223372036854775808
  %a.size = and i64 %a, 9223372036854775807
  %b.size = and i64 %b, 9223372036854775807
  %a.below = sub i64 %a.size, 1
  %b.below = sub i64 %b.size, 1
  ; Zeros wrap around, so one comparison finds them with infinities and NaN.
  %a.finite = icmp ult i64 %a.below, 9218868437227405311
  %b.finite = icmp ult i64 %b.below, 9218868437227405311
  %finite = and i1 %a.finite, %b.finite
  br i1 %finite, label %divide, label %special
special:
  %a.nan = icmp ugt i64 %a.size, 9218868437227405312
  %b.nan = icmp ugt i64 %b.size, 9218868437227405312
  %nan = or i1 %a.nan, %b.nan
  %a.zero = icmp eq i64 %a.size, 0
  %b.zero = icmp eq i64 %b.size, 0
  %zeros = and i1 %a.zero, %b.zero
  %a.infinite = icmp eq i64 %a.size, 9218868437227405312
  %b.infinite = icmp eq i64 %b.size, 9218868437227405312
  %infinities = and i1 %a.infinite, %b.infinite
  %neither = or i1 %zeros, %infinities
  %undefined = or i1 %nan, %neither
  %infinite = or i1 %a.infinite, %b.zero
  %value = select i1 %infinite, i64 9218868437227405312, i64 0
  %signed = or i64 %value, %sign
  %answer = select i1 %undefined, i64 9221120237041090560, i64 %signed
  %special.result = bitcast i64 %answer to double
  ret double %special.result
divide:
  %a.parts = call { i64, i64 } @unpacked(i64 %a)
  %b.parts = call { i64, i64 } @unpacked(i64 %b)
  %a.m = extractvalue { i64, i64 } %a.parts, 0
  %a.e = extractvalue { i64, i64 } %a.parts, 1
  %b.m = extractvalue { i64, i64 } %b.parts, 0
  %b.e = extractvalue { i64, i64 } %b.parts, 1
  %less = icmp ult i64 %a.m, %b.m
  %one = zext i1 %less to i64
  %first = shl i64 %a.m, %one
  %difference = sub i64 %a.e, %b.e
  %e = sub i64 %difference, %one
  br label %digit
digit:
  %i = phi i32 [ 0, %divide ], [ %i.next, %digit ]
  %q = phi i64 [ 0, %divide ], [ %q.next, %digit ]
  %r = phi i64 [ %first, %divide ], [ %r.next, %digit ]
  %fits = icmp uge i64 %r, %b.m
  %bit = zext i1 %fits to i64
  %q.shifted = shl i64 %q, 1
  %q.next = or i64 %q.shifted, %bit
  %taken = select i1 %fits, i64 %b.m, i64 0
  %rest = sub i64 %r, %taken
  %r.next = shl i64 %rest, 1
  %i.next = add i32 %i, 1
  %more = icmp ult i32 %i.next, 63
  br i1 %more, label %digit, label %done
done:
  %inexact = icmp ne i64 %r.next, 0
  %sticky = zext i1 %inexact to i64
  %m = or i64 %q.next, %sticky
  %result = call double @rounded(i64 %sign, i64 %e, i64 %m)
  ret double %result
}

define double @sqrt(double %x) {
  %bits = bitcast double %x to i64
  %below = sub i64 %bits, 1
  %positive = icmp ult i64 %below, 9218868437227405311
  br i1 %positive, label %root, label %special
special:
  ; Zeros, +infinity and NaN are their own roots; a NaN becomes quiet by the addition.
  %doubled = shl i64 %bits, 1
  %zero = icmp eq i64 %doubled, 0
  %negative = icmp ugt i64 %bits, -9223372036854775808
  %sum = fadd double %x, %x
  %same = select i1 %zero, double %x, double %sum
  %answer = select i1 %negative, double 0x7FF8000000000000, double %same
  ret double %answer
root:
  %parts = call { i64, i64 } @unpacked(i64 %bits)
  %m = extractvalue { i64, i64 } %parts, 0
  %e = extractvalue { i64, i64 } %parts, 1
  %odd = and i64 %e, 1
  %even = sub i64 %e, %odd
  %scale = add i64 %odd, 1
  %first = shl i64 %m, %scale
  br label %digit
digit:
  ; rest = 2**(i + 1) * (x - q**2), twice = 2 * q, bit = the present digit of q.
  %bit = phi i64 [ 9007199254740992, %root ], [ %bit.next, %digit ]
  %q = phi i64 [ 0, %root ], [ %q.next, %digit ]
  %twice = phi i64 [ 0, %root ], [ %twice.next, %digit ]
  %rest = phi i64 [ %first, %root ], [ %rest.next, %digit ]
  %trial = add i64 %twice, %bit
  %fits = icmp ule i64 %trial, %rest
  %q.more = or i64 %q, %bit
  %q.next = select i1 %fits, i64 %q.more, i64 %q
  %twice.more = add i64 %trial, %bit
  %twice.next = select i1 %fits, i64 %twice.more, i64 %twice
  %taken = select i1 %fits, i64 %trial, i64 0
  %left = sub i64 %rest, %taken
  %rest.next = shl i64 %left, 1
  %bit.next = lshr i64 %bit, 1
  %more = icmp ne i64 %bit.next, 0
  br i1 %more, label %digit, label %done
done:
  %inexact = icmp ne i64 %rest.next, 0
  %sticky = zext i1 %inexact to i64
  %wide = shl i64 %q.next, 9
  %digits = or i64 %wide, %sticky
  %half = ashr i64 %even, 1
  %result = call double @rounded(i64 0, i64 %half, i64 %digits)
  ret double %result
}

; float64 has more than twice the digits of float32, so rounding twice is rounding once.
; Source: Figueroa 1995, "When is double rounding innocuous?", SIGNUM Newsletter 30(3).
define float @__hexagon_sqrtf(float %x) {
  %wide = fpext float %x to double
  %root = call double @sqrt(double %wide)
  %result = fptrunc double %root to float
  ret float %result
}

define double @fma(double %x, double %y, double %z) {
  %a = bitcast double %x to i64
  %b = bitcast double %y to i64
  %c = bitcast double %z to i64
  %a.size = and i64 %a, 9223372036854775807
  %b.size = and i64 %b, 9223372036854775807
  %c.size = and i64 %c, 9223372036854775807
  %a.below = sub i64 %a.size, 1
  %b.below = sub i64 %b.size, 1
  %a.finite = icmp ult i64 %a.below, 9218868437227405311
  %b.finite = icmp ult i64 %b.below, 9218868437227405311
  %c.finite = icmp ult i64 %c.size, 9218868437227405312
  %ab = and i1 %a.finite, %b.finite
  %finite = and i1 %ab, %c.finite
  br i1 %finite, label %numbers, label %special
special:
  ; A product of 0, infinity or NaN is exact; so is a sum with infinity or NaN.
  %special.product = fmul double %x, %y
  ; A finite product must not overflow before an infinity is added to it.
  %special.factor = select i1 %ab, double 0.0, double %special.product
  %special.result = fadd double %special.factor, %z
  ret double %special.result
numbers:
  %c.zero = icmp eq i64 %c.size, 0
  br i1 %c.zero, label %product, label %add
product:
  %product.result = fmul double %x, %y
  ret double %product.result
add:
  %a.parts = call { i64, i64 } @unpacked(i64 %a)
  %b.parts = call { i64, i64 } @unpacked(i64 %b)
  %c.parts = call { i64, i64 } @unpacked(i64 %c)
  %a.m = extractvalue { i64, i64 } %a.parts, 0
  %a.e = extractvalue { i64, i64 } %a.parts, 1
  %b.m = extractvalue { i64, i64 } %b.parts, 0
  %b.e = extractvalue { i64, i64 } %b.parts, 1
  %c.m = extractvalue { i64, i64 } %c.parts, 0
  %c.e = extractvalue { i64, i64 } %c.parts, 1
  ; Both terms as 128 bits below 2**126, times 2**(e - 124).
  %a.half = and i64 %a.m, 4294967295
  %a.rest = lshr i64 %a.m, 32
  %b.half = and i64 %b.m, 4294967295
  %b.rest = lshr i64 %b.m, 32
  %low.low = mul i64 %a.half, %b.half
  %low.high = mul i64 %a.half, %b.rest
  %high.low = mul i64 %a.rest, %b.half
  %high.high = mul i64 %a.rest, %b.rest
  %middle = add i64 %low.high, %high.low
  %wide.low = zext i64 %low.low to i128
  %wide.middle = zext i64 %middle to i128
  %wide.high = zext i64 %high.high to i128
  %term0 = shl i128 %wide.low, 20
  %term1 = shl i128 %wide.middle, 52
  %term2 = shl i128 %wide.high, 84
  %term01 = add i128 %term0, %term1
  %ab.m = add i128 %term01, %term2
  %ab.e = add i64 %a.e, %b.e
  %c.wide = zext i64 %c.m to i128
  %c.term = shl i128 %c.wide, 72
  %distance = sub i64 %ab.e, %c.e
  %c.lower = icmp sge i64 %distance, 0
  %opposite = sub i64 0, %distance
  %far = select i1 %c.lower, i64 %distance, i64 %opposite
  %most = call i64 @llvm.umin.i64(i64 %far, i64 127)
  %amount = zext i64 %most to i128
  %lower = select i1 %c.lower, i128 %c.term, i128 %ab.m
  %upper = select i1 %c.lower, i128 %ab.m, i128 %c.term
  %moved = lshr i128 %lower, %amount
  %back = shl i128 %moved, %amount
  %lost = icmp ne i128 %back, %lower
  %lost.bit = zext i1 %lost to i128
  %aligned = or i128 %moved, %lost.bit
  %e = select i1 %c.lower, i64 %ab.e, i64 %c.e
  %ab.bits = xor i64 %a, %b
  %ab.sign = and i64 %ab.bits, -9223372036854775808
  %c.sign = and i64 %c, -9223372036854775808
  %upper.sign = select i1 %c.lower, i64 %ab.sign, i64 %c.sign
  %differ = icmp ne i64 %ab.sign, %c.sign
  %negated = sub i128 0, %aligned
  %addend = select i1 %differ, i128 %negated, i128 %aligned
  %sum = add i128 %upper, %addend
  %negative = icmp slt i128 %sum, 0
  %turned = sub i128 0, %sum
  %size = select i1 %negative, i128 %turned, i128 %sum
  %flipped = xor i64 %upper.sign, -9223372036854775808
  %sign = select i1 %negative, i64 %flipped, i64 %upper.sign
  %cancelled = icmp eq i128 %size, 0
  br i1 %cancelled, label %zero, label %normalise
zero:
  ret double 0.0
normalise:
  %zeros = call i128 @llvm.ctlz.i128(i128 %size, i1 true)
  %raised = shl i128 %size, %zeros
  %top = lshr i128 %raised, 65
  %digits = trunc i128 %top to i64
  %rest.wide = shl i128 %raised, 63
  %rest.lost = icmp ne i128 %rest.wide, 0
  %sticky = zext i1 %rest.lost to i64
  %m = or i64 %digits, %sticky
  %zeros.narrow = trunc i128 %zeros to i64
  %e.top = add i64 %e, 3
  %e.result = sub i64 %e.top, %zeros.narrow
  %result = call double @rounded(i64 %sign, i64 %e.result, i64 %m)
  ret double %result
}

; Integers: quotient and remainder digit by digit, from the highest that the quotient may have.
; No kernel divides by 0: it selects another divisor before.
define internal { i64, i64 } @divided(i64 %n, i64 %d) {
entry:
  %n.zeros = call i64 @llvm.ctlz.i64(i64 %n, i1 false)
  %d.zeros = call i64 @llvm.ctlz.i64(i64 %d, i1 false)
  %fits = icmp ule i64 %n.zeros, %d.zeros
  %digits = sub i64 %d.zeros, %n.zeros
  br i1 %fits, label %digit, label %done
digit:
  %i = phi i64 [ %digits, %entry ], [ %i.next, %digit ]
  %q = phi i64 [ 0, %entry ], [ %q.next, %digit ]
  %r = phi i64 [ %n, %entry ], [ %r.next, %digit ]
  %shift = and i64 %i, 63
  %multiple = shl i64 %d, %shift
  %in = icmp uge i64 %r, %multiple
  %bit = zext i1 %in to i64
  %q.shifted = shl i64 %q, 1
  %q.next = or i64 %q.shifted, %bit
  %taken = select i1 %in, i64 %multiple, i64 0
  %r.next = sub i64 %r, %taken
  %i.next = sub i64 %i, 1
  %more = icmp sge i64 %i.next, 0
  br i1 %more, label %digit, label %done
done:
  %quotient = phi i64 [ 0, %entry ], [ %q.next, %digit ]
  %rest = phi i64 [ %n, %entry ], [ %r.next, %digit ]
  %first = insertvalue { i64, i64 } poison, i64 %quotient, 0
  %both = insertvalue { i64, i64 } %first, i64 %rest, 1
  ret { i64, i64 } %both
}

declare i64 @llvm.abs.i64(i64, i1)

define i64 @__hexagon_udivdi3(i64 %n, i64 %d) {
  %both = call { i64, i64 } @divided(i64 %n, i64 %d)
  %q = extractvalue { i64, i64 } %both, 0
  ret i64 %q
}

define i64 @__hexagon_umoddi3(i64 %n, i64 %d) {
  %both = call { i64, i64 } @divided(i64 %n, i64 %d)
  %r = extractvalue { i64, i64 } %both, 1
  ret i64 %r
}

; Truncated towards 0, as LLVM's sdiv; the remainder has the sign of the dividend.
define i64 @__hexagon_divdi3(i64 %n, i64 %d) {
  %n.size = call i64 @llvm.abs.i64(i64 %n, i1 false)
  %d.size = call i64 @llvm.abs.i64(i64 %d, i1 false)
  %q = call i64 @__hexagon_udivdi3(i64 %n.size, i64 %d.size)
  %signs = xor i64 %n, %d
  %negative = icmp slt i64 %signs, 0
  %opposite = sub i64 0, %q
  %result = select i1 %negative, i64 %opposite, i64 %q
  ret i64 %result
}

define i64 @__hexagon_moddi3(i64 %n, i64 %d) {
  %n.size = call i64 @llvm.abs.i64(i64 %n, i1 false)
  %d.size = call i64 @llvm.abs.i64(i64 %d, i1 false)
  %r = call i64 @__hexagon_umoddi3(i64 %n.size, i64 %d.size)
  %negative = icmp slt i64 %n, 0
  %opposite = sub i64 0, %r
  %result = select i1 %negative, i64 %opposite, i64 %r
  ret i64 %result
}

define i32 @__hexagon_udivsi3(i32 %n, i32 %d) {
  %n.wide = zext i32 %n to i64
  %d.wide = zext i32 %d to i64
  %q = call i64 @__hexagon_udivdi3(i64 %n.wide, i64 %d.wide)
  %result = trunc i64 %q to i32
  ret i32 %result
}

define i32 @__hexagon_umodsi3(i32 %n, i32 %d) {
  %n.wide = zext i32 %n to i64
  %d.wide = zext i32 %d to i64
  %r = call i64 @__hexagon_umoddi3(i64 %n.wide, i64 %d.wide)
  %result = trunc i64 %r to i32
  ret i32 %result
}

define i32 @__hexagon_divsi3(i32 %n, i32 %d) {
  %n.wide = sext i32 %n to i64
  %d.wide = sext i32 %d to i64
  %q = call i64 @__hexagon_divdi3(i64 %n.wide, i64 %d.wide)
  %result = trunc i64 %q to i32
  ret i32 %result
}

define i32 @__hexagon_modsi3(i32 %n, i32 %d) {
  %n.wide = sext i32 %n to i64
  %d.wide = sext i32 %d to i64
  %r = call i64 @__hexagon_moddi3(i64 %n.wide, i64 %d.wide)
  %result = trunc i64 %r to i32
  ret i32 %result
}
