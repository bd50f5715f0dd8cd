/* SPDX-License-Identifier: MIT-0 */
/* Elementwise functions of float16 and bfloat16: numbers are widened to float32 in registers, and
 * the result is rounded to nearest even, once.
 *
 * aot_binary_half(y, a, b, p, IA, IB, OP, BF16) combines two tensors with broadcasting, as
 * aot_broadcast.h says; aot_unary_half(y, x, p, OP, BF16) has p->n elements of any layout and the
 * constants of aot_unary_f32.h. BF16 is 1 for bfloat16. y may be an operand that is not broadcast.
 * No scratch. Where a CPU computes float16 itself, it does what has one rounding in both ways.
 */
#ifndef AOT_HALF_H
#define AOT_HALF_H

#include "aot_binary_f32.h"
#include "aot_cast.h"
#include "aot_unary_f32.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif
#if AOT_VLEN == 4 && defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
#include <arm_neon.h>
#define AOT_HALF_FP16 1
#else
#define AOT_HALF_FP16 0
#endif

/* The functions, in the order in which aot/ops/kernels.py numbers them. */
enum { AOT_HALF_ADD, AOT_HALF_SUB, AOT_HALF_MUL, AOT_HALF_DIV };
enum {
    AOT_HALF_ABS,
    AOT_HALF_NEG,
    AOT_HALF_RELU,
    AOT_HALF_CLIP,
    AOT_HALF_LEAKY_RELU,
    AOT_HALF_HARD_SIGMOID,
    AOT_HALF_HARD_SWISH,
    AOT_HALF_SIGMOID,
    AOT_HALF_TANH,
    AOT_HALF_EXP,
    AOT_HALF_SQRT,
    AOT_HALF_ERF,
    AOT_HALF_GELU,
    AOT_HALF_GELU_TANH
};

#if AOT_VLEN > 1
typedef uint16_t aot_half_v __attribute__((vector_size(2 * AOT_VLEN)));
typedef uint32_t aot_half_w __attribute__((vector_size(4 * AOT_VLEN)));
#endif

#if AOT_VLEN > 1
/* V numbers of 16 bits at p, and the low halves of V words there. */
AOT_INLINE aot_vi aot_half_bits(const uint16_t *p) {
#if AOT_VLEN == 4 && AOT_CAST_FCVT
    return (aot_vi)vmovl_u16(vld1_u16(p));
#elif AOT_VLEN == 4 && defined(__SSE2__)
    const __m128i bits = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return (aot_vi)_mm_unpacklo_epi16(bits, _mm_setzero_si128());
#else
    aot_half_v bits;
    (void)memcpy(&bits, p, sizeof bits);
    return (aot_vi) __builtin_convertvector(bits, aot_half_w);
#endif
}
AOT_INLINE void aot_half_narrow(uint16_t *p, aot_vi words) {
#if AOT_VLEN == 4 && AOT_CAST_FCVT
    vst1_u16(p, vmovn_u32((uint32x4_t)words));
#elif AOT_VLEN == 4 && defined(__SSE2__)
    const __m128i low = (__m128i)(words << 16 >> 16); /* with sign, for signed saturation */
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi32(low, low));
#else
    const aot_half_v low = __builtin_convertvector((aot_half_w)words, aot_half_v);
    (void)memcpy(p, &low, sizeof low);
#endif
}

/* aot_cast_from_f16 and aot_cast_to_f16 of vectors. */
AOT_INLINE aot_vf aot_half_wide(const uint16_t *p) {
    const aot_vi h = aot_half_bits(p), mag = (h & 0x7FFF) << 13;
    const aot_vi scaled = aot_vbits(aot_vfrombits(mag) * 5.192296858534828e33F);
    const aot_vi far = aot_visgt(mag, aot_viset1(0x0F7FFFFF));
    return aot_vfrombits((h & 0x8000) << 16 | (far & (mag | 0x7F800000)) | (~far & scaled));
}
AOT_INLINE aot_vi aot_half_near(aot_vf v) {
    const aot_vi u = aot_vbits(v), mag = u & INT32_C(0x7FFFFFFF), normal = mag - 0x38000000;
    const aot_vi small = aot_vbits(aot_vfrombits(mag) + 0.5F) - 0x3F000000;
    const aot_vi is_small = aot_visgt(aot_viset1(0x38800000), mag);
    const aot_vi is_far = aot_visgt(mag, aot_viset1(0x477FEFFF));
    const aot_vi is_nan = aot_visgt(mag, aot_viset1(0x7F800000));
    const aot_vi h = (is_small & small) | (~is_small & (normal + 0xFFF + (normal >> 13 & 1)) >> 13);
    return (u >> 16 & 0x8000) | (~is_far & h) | (is_far & 0x7C00) | (is_nan & 0x0200);
}
#endif

/* V numbers at p as floats. */
AOT_INLINE aot_vf aot_half_load(const uint16_t *p, int BF16) {
#if AOT_VLEN == 1
    return BF16 ? aot_cast_from_bf16(*p) : aot_cast_from_f16(*p);
#else
    if (BF16) {
        return aot_vfrombits(aot_half_bits(p) << 16);
    }
#if AOT_VLEN == 16 && defined(__AVX512F__)
    return (aot_vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
#elif AOT_VLEN == 8 && defined(__F16C__)
    return (aot_vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
#elif AOT_VLEN == 4 && AOT_CAST_FCVT
    return (aot_vf)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
#else
    return aot_half_wide(p);
#endif
#endif
}

/* V floats rounded, at p. */
AOT_INLINE void aot_half_store(uint16_t *p, aot_vf v, int BF16) {
#if AOT_VLEN == 1
    *p = BF16 ? aot_cast_to_bf16(v) : aot_cast_to_f16(v);
#else
    if (BF16) {
        const aot_half_w bits = (aot_half_w)v;
        const aot_half_w nan = (aot_half_w)aot_visgt((aot_vi)(bits & 0x7FFFFFFFU), //
                                                     aot_viset1(0x7F800000));
        const aot_half_w near = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
        const aot_half_w made = (nan & (bits >> 16 | 0x40U)) | (~nan & near);
        aot_half_narrow(p, (aot_vi)made);
        return;
    }
#if AOT_VLEN == 16 && defined(__AVX512F__)
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph((__m512)v, 0));
#elif AOT_VLEN == 8 && defined(__F16C__)
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph((__m256)v, 0));
#elif AOT_VLEN == 4 && AOT_CAST_FCVT
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v)));
#else
    aot_half_narrow(p, aot_half_near(v));
#endif
#endif
}

/* The first n numbers at x, and ones behind them. */
AOT_INLINE aot_vf aot_half_load_n(const uint16_t *x, ptrdiff_t n, int BF16) {
    uint16_t last[AOT_VLEN];
    int i;
    for (i = 0; i < AOT_VLEN; ++i) {
        last[i] = i < n ? x[i] : BF16 ? 0x3F80U : 0x3C00U;
    }
    return aot_half_load(last, BF16);
}

/* The first n lanes of v rounded, at y. */
AOT_INLINE void aot_half_store_n(uint16_t *y, aot_vf v, ptrdiff_t n, int BF16) {
    uint16_t last[AOT_VLEN];
    aot_half_store(last, v, BF16);
    (void)memcpy(y, last, (size_t)n * sizeof *y);
}

AOT_INLINE aot_vf aot_half_pair(aot_vf a, aot_vf b, int OP) {
    return OP == AOT_HALF_ADD   ? a + b
           : OP == AOT_HALF_SUB ? a - b
           : OP == AOT_HALF_MUL ? a * b
                                : a / b;
}

#if AOT_HALF_FP16
AOT_INLINE float16x8_t aot_half_pair8(float16x8_t a, float16x8_t b, int OP) {
    return OP == AOT_HALF_ADD   ? vaddq_f16(a, b)
           : OP == AOT_HALF_SUB ? vsubq_f16(a, b)
           : OP == AOT_HALF_MUL ? vmulq_f16(a, b)
                                : vdivq_f16(a, b);
}

/* Eight numbers at x, or the one at x in every lane. */
AOT_INLINE float16x8_t aot_half_load8(const uint16_t *x, ptrdiff_t i, int IS) {
    return vreinterpretq_f16_u16(IS ? vld1q_u16(x + i) : vdupq_n_u16(*x));
}
#endif

/* Lanes i.. of an operand of a row, of which `left` are left: all are its only number if IS is 0.
 */
AOT_INLINE aot_vf aot_half_operand(const uint16_t *x, ptrdiff_t i, ptrdiff_t left, int IS,
                                   int BF16) {
    if (!IS) {
        return aot_vset1(BF16 ? aot_cast_from_bf16(*x) : aot_cast_from_f16(*x));
    }
    return left < AOT_VLEN ? aot_half_load_n(x + i, left, BF16) : aot_half_load(x + i, BF16);
}

AOT_INLINE void aot_half_row(uint16_t *y, const uint16_t *a, const uint16_t *b, ptrdiff_t n, int IA,
                             int IB, int OP, int BF16) {
    ptrdiff_t i = 0;
#if AOT_HALF_FP16
    for (; !BF16 && i + 8 <= n; i += 8) {
        const float16x8_t va = aot_half_load8(a, i, IA), vb = aot_half_load8(b, i, IB);
        vst1q_u16(y + i, vreinterpretq_u16_f16(aot_half_pair8(va, vb, OP)));
    }
#endif
    for (; i + AOT_VLEN <= n; i += AOT_VLEN) {
        const aot_vf va = aot_half_operand(a, i, AOT_VLEN, IA, BF16);
        const aot_vf vb = aot_half_operand(b, i, AOT_VLEN, IB, BF16);
        aot_half_store(y + i, aot_half_pair(va, vb, OP), BF16);
    }
    if (i < n) {
        const aot_vf va = aot_half_operand(a, i, n - i, IA, BF16);
        const aot_vf vb = aot_half_operand(b, i, n - i, IB, BF16);
        aot_half_store_n(y + i, aot_half_pair(va, vb, OP), n - i, BF16);
    }
}
#define AOT_HALF_ROW(y, a, b, n) aot_half_row(y, a, b, n, IA, IB, OP, BF16)

typedef aot_broadcast2_params aot_binary_half_params;

AOT_INLINE void aot_binary_half(uint16_t *y, const uint16_t *a, const uint16_t *b,
                                const aot_broadcast2_params *p, int IA, int IB, int OP, int BF16) {
    AOT_BROADCAST2(uint16_t, uint16_t, uint16_t, AOT_HALF_ROW);
}

/* One function of a vector, whose constants are a and b. */
AOT_INLINE aot_vf aot_half_lanes(aot_vf x, aot_vf a, aot_vf b, int OP) {
    const aot_vf none = aot_vzero();
    switch (OP) {
    case AOT_HALF_ABS:
        return aot_abs_lanes(x, a, b, none);
    case AOT_HALF_NEG:
        return aot_neg_lanes(x, a, b, none);
    case AOT_HALF_RELU:
        return aot_relu_lanes(x, a, b, none);
    case AOT_HALF_CLIP:
        return aot_clip_lanes(x, a, b, none);
    case AOT_HALF_LEAKY_RELU:
        return aot_leaky_relu_lanes(x, a, b, none);
    case AOT_HALF_HARD_SIGMOID:
        return aot_hard_sigmoid_lanes(x, a, b, none);
    case AOT_HALF_HARD_SWISH:
        return aot_hard_swish_lanes(x, a, b, none);
    case AOT_HALF_SIGMOID:
        return aot_sigmoid_lanes(x, a, b, none);
    case AOT_HALF_TANH:
        return aot_tanh_lanes(x, a, b, none);
    case AOT_HALF_EXP:
        return aot_exp_lanes(x, a, b, none);
    case AOT_HALF_SQRT:
        return aot_sqrt_lanes(x, a, b, none);
    case AOT_HALF_ERF:
        return aot_erf_lanes(x, a, b, none);
    case AOT_HALF_GELU:
        return aot_gelu_lanes(x, a, b, none);
    default:
        return aot_gelu_tanh_lanes(x, a, b, none);
    }
}

typedef aot_unary_f32_params aot_unary_half_params;

AOT_INLINE void aot_unary_half(uint16_t *y, const uint16_t *x, const aot_unary_f32_params *p,
                               int OP, int BF16) {
    const aot_vf a = aot_vset1(p->a), b = aot_vset1(p->b);
    const ptrdiff_t n = (ptrdiff_t)p->n;
    ptrdiff_t i = 0;
#if AOT_HALF_FP16
    const float16x8_t zero = vreinterpretq_f16_u16(vdupq_n_u16(0));
    for (; OP == AOT_HALF_RELU && !BF16 && i + 8 <= n; i += 8) {
        const float16x8_t v = vreinterpretq_f16_u16(vld1q_u16(x + i));
        const uint16x8_t kept = vmvnq_u16(vcltq_f16(v, zero)); /* as a NaN is */
        vst1q_u16(y + i, vandq_u16(vreinterpretq_u16_f16(v), kept));
    }
#endif
    for (; i + AOT_VLEN <= n; i += AOT_VLEN) {
        aot_half_store(y + i, aot_half_lanes(aot_half_load(x + i, BF16), a, b, OP), BF16);
    }
    if (i < n) {
        aot_half_store_n(y + i, aot_half_lanes(aot_half_load_n(x + i, n - i, BF16), a, b, OP),
                         n - i, BF16);
    }
}

#endif /* AOT_HALF_H */
