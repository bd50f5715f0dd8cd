/* SPDX-License-Identifier: MIT-0 */
/* The functions of aot_vmath_f32.h, included once per width (so: no include guard).
 *
 * The includer defines AOT_VM(name) (the prefix of a function), AOT_VM_F, AOT_VM_I, AOT_VM_U
 * (float, int32 and uint32 of this width). Every width runs the same operations in the same order,
 * so a lane of a vector and a scalar give the same bits where the compiler contracts both alike.
 *
 * Coefficients are minimax fits of relative error in float32 (Lawson's iteration, rounded one by
 * one); the interval and the error are given with each.
 */

/* Rounds a float of magnitude below 2^22 to the nearest integer when added and subtracted. */
#define AOT_VM_MAGIC 12582912.0F

/* exp(x) = (1 + q) * a * b: q in about -0.29..0.42, a and b powers of two. */
AOT_INLINE AOT_VM_F AOT_VM(exp_parts)(AOT_VM_F x, AOT_VM_F *a, AOT_VM_F *b) {
    const AOT_VM_F bottom = AOT_VM(set1)(-105.0F), top = AOT_VM(set1)(89.0F);
    AOT_VM_F t, n, r, p, low;
    AOT_VM_U bias, half;
    x = AOT_VM(max)(bottom, AOT_VM(min)(top, x));
    t = x * 1.44269504F + AOT_VM_MAGIC;
    n = t - AOT_VM_MAGIC;
    /* ln 2 in two parts; n times the first one is exact. */
    x = x - n * 0.693359375F;
    low = n * -2.12194440e-4F;
    r = x - low;
    low = (x - r) - low; /* what r's rounding lost */
    /* (exp(r) - 1 - r) / r^2 on |r| <= ln(2)/2, error 2^-28 of exp(r). */
    p = 0.00138189388F * r + 0.00836870354F;
    p = p * r + 0.0416682884F;
    p = p * r + 0.166665211F;
    p = p * r + 0.49999994F;
    /* Exponent fields of two powers whose product is 2^n: n reaches -152..128, out of one field. */
    bias = (AOT_VM_U)AOT_VM(bits)(t) - (UINT32_C(0x4B400000) - 254U);
    half = bias >> 1;
    *a = AOT_VM(frombits)((AOT_VM_I)(half << 23));
    *b = AOT_VM(frombits)((AOT_VM_I)((bias - half) << 23));
    return (p * (r * r) + low) + r;
}

AOT_INLINE AOT_VM_F AOT_VM(exp)(AOT_VM_F x) {
    AOT_VM_F a, b;
    const AOT_VM_F q = AOT_VM(exp_parts)(x, &a, &b);
    return (1.0F + q) * a * b;
}

/* exp(x) - 1, accurate near zero too. */
AOT_INLINE AOT_VM_F AOT_VM(expm1)(AOT_VM_F x) {
    AOT_VM_F a, b;
    const AOT_VM_F q = AOT_VM(exp_parts)(x, &a, &b);
    const AOT_VM_I large = AOT_VM(lt)(AOT_VM(set1)(40.0F), x);
    const AOT_VM_F s = a * b;
    return AOT_VM(select)(large, (1.0F + q) * a * b, q * s + (s - 1.0F));
}

/* log(x): NaN below zero, -inf at zero. */
AOT_INLINE AOT_VM_F AOT_VM(log)(AOT_VM_F x) {
    const AOT_VM_I tiny = AOT_VM(lt)(x, AOT_VM(set1)(1.17549435e-38F));
    const AOT_VM_F zero = AOT_VM(set1)(0.0F);
    const AOT_VM_F inf = AOT_VM(frombits)(AOT_VM(iset1)(INT32_C(0x7F800000)));
    AOT_VM_F e, f, p, y;
    AOT_VM_U u, k;
    y = AOT_VM(select)(tiny, x * 8388608.0F, x);
    /* x = 2^e * (1 + f), 1 + f in sqrt(1/2)..sqrt(2). */
    u = (AOT_VM_U)AOT_VM(bits)(y) + (UINT32_C(0x3F800000) - UINT32_C(0x3F3504F3));
    k = u >> 23;
    e = AOT_VM(frombits)((AOT_VM_I)(k | UINT32_C(0x4B000000))) - (8388608.0F + 127.0F);
    e = e - AOT_VM(select)(tiny, AOT_VM(set1)(23.0F), zero);
    u = (u & UINT32_C(0x007FFFFF)) + UINT32_C(0x3F3504F3);
    f = AOT_VM(frombits)((AOT_VM_I)u) - 1.0F;
    /* (log(1 + f) - f + f^2 / 2) / f^3, error 2^-30 of log(1 + f). */
    p = 0.0674985722F * f - 0.116711758F;
    p = p * f + 0.118838735F;
    p = p * f - 0.124061145F;
    p = p * f + 0.142203107F;
    p = p * f - 0.166679919F;
    p = p * f + 0.20002073F;
    p = p * f - 0.250000089F;
    p = p * f + 0.333333135F;
    p = p * f;
    p = e * -2.12194440e-4F + f * f * (p - 0.5F);
    y = e * 0.693359375F + (f + p);
    y = AOT_VM(select)(AOT_VM(eq)(x, zero), -inf, y);
    y = AOT_VM(select)(AOT_VM(lt)(x, zero), inf - inf, y);
    /* inf and NaN are their own logarithms. */
    return AOT_VM(select)(AOT_VM(lt)(x, inf), y, x + zero);
}

/* log(1 + z) for z in 0..1. */
AOT_INLINE AOT_VM_F AOT_VM(log1p_unit)(AOT_VM_F z) {
    const AOT_VM_F u = 1.0F + z;
    return AOT_VM(log)(u) + (z - (u - 1.0F)) / u;
}

AOT_INLINE AOT_VM_F AOT_VM(tanh)(AOT_VM_F x) {
    const AOT_VM_F m = AOT_VM(abs)(x), s = x * x;
    AOT_VM_F p, big;
    /* (tanh(x) / x - 1) / x^2 on |x| < 0.63, error 2^-27. */
    p = -0.00566362171F * s + 0.0206032395F;
    p = p * s - 0.0537291318F;
    p = p * s + 0.133313209F;
    p = p * s - 0.333332777F;
    big = 1.0F - 2.0F / (AOT_VM(exp)(m + m) + 1.0F);
    big = AOT_VM(copysign)(big, x);
    return AOT_VM(select)(AOT_VM(lt)(m, AOT_VM(set1)(0.625F)), x + x * s * p, big);
}

/* 1 / (1 + exp(-x)), never by way of an overflow. */
AOT_INLINE AOT_VM_F AOT_VM(sigmoid)(AOT_VM_F x) {
    const AOT_VM_F one = AOT_VM(set1)(1.0F), z = AOT_VM(exp)(-AOT_VM(abs)(x));
    const AOT_VM_I negative = AOT_VM(lt)(x, AOT_VM(set1)(0.0F));
    const AOT_VM_F d = 1.0F + z, lost = z - (d - 1.0F);
    const AOT_VM_F y = AOT_VM(select)(negative, z, one) / d;
    /* What the sum lost, times about 1 / d. */
    return y - y * (lost * (1.0F - 0.5F * z));
}

AOT_INLINE AOT_VM_F AOT_VM(erf)(AOT_VM_F x) {
    const AOT_VM_F m = AOT_VM(abs)(x), s = x * x, four = AOT_VM(set1)(4.0F);
    AOT_VM_F p, q, t;
    /* erf(x) / x - 1 on |x| < 0.93, error 2^-30. */
    p = 7.99664995e-05F * s - 0.000804976968F;
    p = p * s + 0.00519240508F;
    p = p * s - 0.0268557314F;
    p = p * s + 0.112836257F;
    p = p * s - 0.376126289F;
    p = p * s + 0.128379166F;
    /* log(1 - erf(t)) on 0.92..4, error 2^-29 of erf(t); beyond 4 erf is 1. */
    t = AOT_VM(min)(four, m);
    q = 0.000195934845F * t - 0.00304321013F;
    q = q * t + 0.0222269315F;
    q = q * t - 0.103931658F;
    q = q * t - 0.637182176F;
    q = q * t - 1.12767565F;
    q = q * t - 0.000195675588F;
    q = AOT_VM(copysign)(1.0F - AOT_VM(exp)(q), x);
    return AOT_VM(select)(AOT_VM(lt)(m, AOT_VM(set1)(0.925F)), x + x * p, q);
}

/* log(1 + exp(x)). */
AOT_INLINE AOT_VM_F AOT_VM(softplus)(AOT_VM_F x) {
    const AOT_VM_F zero = AOT_VM(set1)(0.0F);
    const AOT_VM_F positive = AOT_VM(select)(AOT_VM(lt)(x, zero), zero, x);
    return positive + AOT_VM(log1p_unit)(AOT_VM(exp)(-AOT_VM(abs)(x)));
}

/* x * (1 + erf(x / sqrt 2)) / 2 = max(x, 0) - |x| * e with e = erfc(|x| / sqrt 2) / 2: nothing
 * cancels, and -infinity less itself is NaN. */
AOT_INLINE AOT_VM_F AOT_VM(gelu)(AOT_VM_F x) {
    const AOT_VM_F m = AOT_VM(min)(AOT_VM(set1)(20.0F), AOT_VM(abs)(x)); /* e is 0 from 14 on */
    AOT_VM_F q, t, p, e;
    /* log2(2 e) / m, error 2^-26 of the result. */
    q = -2.52900486e-06F * m + 3.56811688e-05F;
    q = q * m - 0.000168394778F;
    q = q * m - 0.000180681775F;
    q = q * m + 0.00712209754F;
    q = q * m - 0.0525384061F;
    q = q * m - 0.459193438F;
    q = q * m - 1.15110707F;
    q = AOT_VM(max)(AOT_VM(set1)(-126.0F), q * m);
    t = q + AOT_VM_MAGIC;
    q = q - (t - AOT_VM_MAGIC);
    /* (2^q - 1) / q on -1/2..1/2, error 2^-28 of 2^q. */
    p = 0.000153264729F * q + 0.00133908074F;
    p = p * q + 0.00961850584F;
    p = p * q + 0.0555035993F;
    p = p * q + 0.240226477F;
    p = p * q + 0.693147182F;
    p = p * q + 1.0F;
    /* Half the power of two; -126 gives the exponent of 0. */
    t = AOT_VM(frombits)(
        (AOT_VM_I)(((AOT_VM_U)AOT_VM(bits)(t) - (UINT32_C(0x4B400000) - 126U)) << 23));
    e = p * t;
    return (x - AOT_VM(min)(AOT_VM(set1)(0.0F), x)) - m * e;
}

/* x / (1 + exp(z)): a zero for z from 88.4 on, NaN for x = -infinity there. */
AOT_INLINE AOT_VM_F AOT_VM(over_exp)(AOT_VM_F x, AOT_VM_F z) {
    /* The exponent field of 2^n are the low bits of t: 0 of zero, 255 of infinity. */
    const float magic = AOT_VM_MAGIC + 127.0F;
    const AOT_VM_F bottom = AOT_VM(set1)(-88.0F), top = AOT_VM(set1)(88.7F);
    AOT_VM_F r = AOT_VM(max)(bottom, AOT_VM(min)(top, z)), t = r * 1.44269504F + magic, p;
    const AOT_VM_F n = t - magic;
    r = r - n * 0.693359375F;
    r = r - n * -2.12194440e-4F;
    /* As in exp_parts. */
    p = 0.00138189388F * r + 0.00836870354F;
    p = p * r + 0.0416682884F;
    p = p * r + 0.166665211F;
    p = p * r + 0.49999994F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    t = AOT_VM(frombits)((AOT_VM_I)((AOT_VM_U)AOT_VM(bits)(t) << 23));
    return x / (1.0F + p * t);
}

/* x / (1 + exp(-a * x)). */
AOT_INLINE AOT_VM_F AOT_VM(silu)(AOT_VM_F x, AOT_VM_F a) {
    return AOT_VM(over_exp)(x, x * -a);
}

/* x * (1 + tanh(v)) / 2 = x / (1 + exp(-2 v)). */
AOT_INLINE AOT_VM_F AOT_VM(gelu_tanh)(AOT_VM_F x) {
    return AOT_VM(over_exp)(x, x * (-1.59576912F - 0.0713548162F * (x * x)));
}

/* x * tanh(softplus(x)) = x * n / (n + 2), n = e^x (e^x + 2). */
AOT_INLINE AOT_VM_F AOT_VM(mish)(AOT_VM_F x) {
    const AOT_VM_F top = AOT_VM(set1)(20.0F);
    const AOT_VM_I large = AOT_VM(lt)(top, x);
    const AOT_VM_F e = AOT_VM(exp)(AOT_VM(select)(large, top, x));
    const AOT_VM_F n = e * (e + 2.0F);
    return AOT_VM(select)(large, x, x * (n / (n + 2.0F)));
}

/* Nearest integer, halves to even; the sign of a zero result is x's. */
AOT_INLINE AOT_VM_F AOT_VM(rint)(AOT_VM_F x) {
    const AOT_VM_F m = AOT_VM(abs)(x);
    const AOT_VM_F t = AOT_VM(copysign)((m + 8388608.0F) - 8388608.0F, x);
    return AOT_VM(select)(AOT_VM(lt)(m, AOT_VM(set1)(8388608.0F)), t, x);
}

AOT_INLINE AOT_VM_F AOT_VM(floor)(AOT_VM_F x) {
    const AOT_VM_F t = AOT_VM(rint)(x), zero = AOT_VM(set1)(0.0F);
    const AOT_VM_F over = AOT_VM(select)(AOT_VM(lt)(x, t), AOT_VM(set1)(1.0F), zero);
    return t - over;
}

AOT_INLINE AOT_VM_F AOT_VM(ceil)(AOT_VM_F x) {
    return -AOT_VM(floor)(-x);
}
