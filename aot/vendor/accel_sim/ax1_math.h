/* SPDX-License-Identifier: MIT-0 */
/* Arithmetic of the vector unit. Right shifts of negative numbers keep the sign. */
#ifndef AX1_MATH_H
#define AX1_MATH_H

#include "ax1_core.h"

#define AX1_LIMIT 2097152.0F /* 2^21: what requantised sums are limited to */

/* Vector constants of an instruction. */
typedef struct ax1_vector {
    int32_t zero, lo, hi, rq, mult, shift, za, zb;
    int32_t ma, mb, my, kind, minus, sa, sb, sy, add_za, add_zb, zy, add_lo, add_hi;
} ax1_vector;

static inline ax1_vector ax1_vector_of(const ax1_entry *e) {
    const uint32_t *a = e->vset[0], *b = e->vset[1], *c = e->vset[2];
    ax1_vector v;
    v.zero = AX1_VSET0_ZERO(a);
    v.lo = AX1_VSET0_LO(a);
    v.hi = AX1_VSET0_HI(a);
    v.rq = AX1_VSET0_RQ(a);
    v.mult = AX1_VSET0_MULT(a);
    v.shift = AX1_VSET0_SHIFT(a);
    v.za = AX1_VSET0_ZA(a);
    v.zb = AX1_VSET0_ZB(a);
    v.ma = AX1_VSET1_MA(b);
    v.mb = AX1_VSET1_MB(b);
    v.my = AX1_VSET1_MY(b);
    v.kind = AX1_VSET2_KIND(c);
    v.minus = AX1_VSET2_MINUS(c);
    v.sa = AX1_VSET2_SA(c);
    v.sb = AX1_VSET2_SB(c);
    v.sy = AX1_VSET2_SY(c);
    v.add_za = AX1_VSET2_ZA(c);
    v.add_zb = AX1_VSET2_ZB(c);
    v.zy = AX1_VSET2_ZY(c);
    v.add_lo = AX1_VSET2_LO(c);
    v.add_hi = AX1_VSET2_HI(c);
    return v;
}

static inline float ax1_float_of(int32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline int32_t ax1_clamp(int32_t v, int32_t lo, int32_t hi) {
    return v < lo ? lo : v > hi ? hi : v;
}

static inline int32_t ax1_wrap(int64_t v) {
    return (int32_t)(uint32_t)(uint64_t)v;
}

/* RQ 0: halves to even. */
static inline int32_t ax1_scaled(int32_t acc, int32_t mult) {
    const float product = (float)acc * ax1_float_of(mult);
    const float above = product >= -AX1_LIMIT ? product : -AX1_LIMIT;
    const float limited = above > AX1_LIMIT ? AX1_LIMIT : above;
    const float shifted = limited + 12582912.0F; /* 1.5 * 2^23: what follows is an integer */
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return bits - 0x4B400000;
}

static inline int32_t ax1_doubling_high(int32_t a, int32_t mult) {
    return ax1_wrap(((int64_t)a * mult + ((int64_t)1 << 30)) >> 31);
}

/* RQ 2; shift < 0 is to the right. */
static inline int32_t ax1_fixed(int32_t acc, int32_t mult, int32_t shift) {
    if (shift >= 0) {
        const int64_t wide = (int64_t)acc * ((int64_t)1 << (shift < 30 ? shift : 30));
        const int64_t top = (1 << 30) - 1;
        return ax1_doubling_high((int32_t)(wide > top ? top : wide < -top ? -top : wide), mult);
    } else {
        const int32_t right = shift < -31 ? 31 : -shift;
        const int32_t high = ax1_doubling_high(acc, mult);
        return ax1_wrap((int64_t)high + (high >> 31) + ((int64_t)1 << (right - 1))) >> right;
    }
}

static inline int32_t ax1_requantise(int32_t acc, int32_t mult, int32_t shift, int32_t rq) {
    return rq == AX1_RQ_TFLITE ? ax1_fixed(acc, mult, shift) : ax1_scaled(acc, mult);
}

static inline int32_t ax1_clamped(int32_t value, const ax1_vector *v) {
    return ax1_clamp(value, v->lo - v->zero, v->hi - v->zero) + v->zero;
}

static inline int32_t ax1_add_values(int32_t a, int32_t b, const ax1_vector *v) {
    int32_t found;
    if (v->kind == AX1_KIND_TFLITE) {
        const int32_t left = ax1_fixed((a - v->add_za) * (1 << 20), v->ma, v->sa);
        const int32_t right = ax1_fixed((b - v->add_zb) * (1 << 20), v->mb, v->sb);
        const int64_t sum = (int64_t)left + (v->minus ? -(int64_t)right : (int64_t)right);
        found = ax1_wrap((int64_t)ax1_fixed(ax1_wrap(sum), v->my, v->sy) + v->zy);
    } else {
        int64_t sum = (int64_t)a * v->ma + (int64_t)b * v->mb + v->my;
        int32_t total = ax1_wrap(sum);
        if (v->kind == AX1_KIND_EVEN) {
            total = ax1_wrap((int64_t)total + ((total >> (v->sy & 31)) & 1));
        }
        found = total >> (v->sy & 31);
    }
    return ax1_clamp(found, v->add_lo, v->add_hi);
}

static inline float ax1_limited(float value, const ax1_vector *v) {
    const float lo = ax1_float_of(v->ma), hi = ax1_float_of(v->mb);
    return value < lo ? lo : value > hi ? hi : value;
}

#endif /* AX1_MATH_H */
