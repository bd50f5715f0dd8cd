/* SPDX-License-Identifier: MIT-0 */
/* Elementwise functions of two or three float32 tensors with broadcasting:
 * aot_<name>_f32(y, a, b, p, IA, IB, ACT); loops and strides as aot_broadcast.h says.
 *
 * ACT: 0 none, 1 relu, 2 clip to p->lo..p->hi. y may be an operand that is not broadcast.
 * No scratch.
 */
#ifndef AOT_BINARY_F32_H
#define AOT_BINARY_F32_H

#include <stddef.h>
#include <stdint.h>

#include "aot_broadcast.h"
#include "aot_vmath_f32.h"

AOT_INLINE aot_vf aot_binary_act(aot_vf v, aot_vf lo, aot_vf hi, int ACT) {
    if (ACT == 1) {
        return aot_vmax(aot_vzero(), v);
    }
    return ACT == 2 ? aot_vclamp(v, lo, hi) : v;
}

/* One operand's vector at i: IS 1 contiguous, 0 one value for the whole row. */
AOT_INLINE aot_vf aot_binary_load(const float *x, ptrdiff_t i, int IS) {
    return IS ? aot_vload(x + i) : aot_vset1(*x);
}
AOT_INLINE aot_vf aot_binary_load_n(const float *x, ptrdiff_t i, int n, int IS) {
    return IS ? aot_vload_n(x + i, n, 1.0F) : aot_vset1(*x);
}

#define AOT_BINARY_F32(NAME, EXPR)                                                                 \
    typedef aot_broadcast2_params aot_##NAME##_f32_params;                                         \
    AOT_INLINE aot_vf aot_##NAME##_lanes2(aot_vf a, aot_vf b) {                                    \
        return EXPR;                                                                               \
    }                                                                                              \
    AOT_INLINE void aot_##NAME##_row(float *y, const float *a, const float *b, ptrdiff_t n,        \
                                     aot_vf lo, aot_vf hi, int IA, int IB, int ACT) {              \
        ptrdiff_t i;                                                                               \
        for (i = 0; i + AOT_VLEN <= n; i += AOT_VLEN) {                                            \
            const aot_vf va = aot_binary_load(a, i, IA), vb = aot_binary_load(b, i, IB);           \
            aot_vstore(y + i, aot_binary_act(aot_##NAME##_lanes2(va, vb), lo, hi, ACT));           \
        }                                                                                          \
        if (i < n) {                                                                               \
            const int rest = (int)(n - i);                                                         \
            const aot_vf va = aot_binary_load_n(a, i, rest, IA);                                   \
            const aot_vf vb = aot_binary_load_n(b, i, rest, IB);                                   \
            const aot_vf v = aot_binary_act(aot_##NAME##_lanes2(va, vb), lo, hi, ACT);             \
            aot_vstore_n(y + i, v, rest);                                                          \
        }                                                                                          \
    }                                                                                              \
    AOT_INLINE void aot_##NAME##_f32(float *y, const float *a, const float *b,                     \
                                     const aot_broadcast2_params *p, int IA, int IB, int ACT) {    \
        const aot_vf lo = aot_vset1(p->lo), hi = aot_vset1(p->hi);                                 \
        AOT_BROADCAST2(float, float, float, AOT_BINARY_ROW_##NAME);                                \
    }

#define AOT_BINARY_ROW_add(y, a, b, n) aot_add_row(y, a, b, n, lo, hi, IA, IB, ACT)
#define AOT_BINARY_ROW_sub(y, a, b, n) aot_sub_row(y, a, b, n, lo, hi, IA, IB, ACT)
#define AOT_BINARY_ROW_mul(y, a, b, n) aot_mul_row(y, a, b, n, lo, hi, IA, IB, ACT)
#define AOT_BINARY_ROW_div(y, a, b, n) aot_div_row(y, a, b, n, lo, hi, IA, IB, ACT)
#define AOT_BINARY_ROW_min(y, a, b, n) aot_min_row(y, a, b, n, lo, hi, IA, IB, ACT)
#define AOT_BINARY_ROW_max(y, a, b, n) aot_max_row(y, a, b, n, lo, hi, IA, IB, ACT)
#define AOT_BINARY_ROW_prelu(y, a, b, n) aot_prelu_row(y, a, b, n, lo, hi, IA, IB, ACT)

AOT_BINARY_F32(add, a + b)
AOT_BINARY_F32(sub, a - b)
AOT_BINARY_F32(mul, a *b)
AOT_BINARY_F32(div, a / b)
AOT_BINARY_F32(min, aot_vminimum(a, b))
AOT_BINARY_F32(max, aot_vmaximum(a, b))
/* b: slope below zero */
AOT_BINARY_F32(prelu, aot_vselect(aot_vlt(a, aot_vzero()), a *b, a))

/* y = act(a * b + c): a channelwise scale and shift. */
typedef aot_broadcast3_params aot_muladd_f32_params;

AOT_INLINE void aot_muladd_row(float *y, const float *a, const float *b, const float *c,
                               ptrdiff_t n, aot_vf lo, aot_vf hi, int IA, int IB, int IC, int ACT) {
    ptrdiff_t i;
    for (i = 0; i + AOT_VLEN <= n; i += AOT_VLEN) {
        const aot_vf v = aot_binary_load(a, i, IA) * aot_binary_load(b, i, IB);
        aot_vstore(y + i, aot_binary_act(v + aot_binary_load(c, i, IC), lo, hi, ACT));
    }
    if (i < n) {
        const int rest = (int)(n - i);
        const aot_vf v = aot_binary_load_n(a, i, rest, IA) * aot_binary_load_n(b, i, rest, IB);
        const aot_vf w = v + aot_binary_load_n(c, i, rest, IC);
        aot_vstore_n(y + i, aot_binary_act(w, lo, hi, ACT), rest);
    }
}
#define AOT_MULADD_ROW(y, a, b, c, n) aot_muladd_row(y, a, b, c, n, lo, hi, IA, IB, IC, ACT)

AOT_INLINE void aot_muladd_f32(float *y, const float *a, const float *b, const float *c,
                               const aot_muladd_f32_params *p, int IA, int IB, int IC, int ACT) {
    const aot_vf lo = aot_vset1(p->lo), hi = aot_vset1(p->hi);
    AOT_BROADCAST3(float, float, float, float, AOT_MULADD_ROW);
}

#endif /* AOT_BINARY_F32_H */
