/* SPDX-License-Identifier: MIT-0 */
/* Rows of sums of int8 quantised values (aot_qbinary.h) in Arm's vector extension, four at a time.
 */
#ifndef AOT_QBINARY_MVE_H
#define AOT_QBINARY_MVE_H

#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__)

#include <arm_mve.h>

#include "aot_requant.h"

/* x times a multiplier of RQ 2 whose shift is not to the left; away is 1 if there is a shift. */
AOT_INLINE int32x4_t aot_qmve_scale(int32x4_t x, int32_t mult, int32_t shift, int32_t away) {
    const int32x4_t high = vqrdmulhq_n_s32(x, mult);
    return vrshlq_n_s32(vmlaq_n_s32(high, vshrq_n_s32(high, 31), away), shift);
}

AOT_INLINE int32x4_t aot_qmve_add_four(int32x4_t a, int32x4_t b, const aot_qbinary_params *p,
                                       int KIND) {
    if (KIND == 2) {
        const int32x4_t left = aot_qmve_scale(vshlq_n_s32(vsubq_n_s32(a, p->a_zero), 20), p->a_mult,
                                              p->a_shift, p->a_shift < 0);
        const int32x4_t right = aot_qmve_scale(vshlq_n_s32(vsubq_n_s32(b, p->b_zero), 20),
                                               p->b_mult, p->b_shift, p->b_shift < 0);
        const int32x4_t sum = vmlaq_n_s32(left, right, p->offset);
        return vaddq_n_s32(aot_qmve_scale(sum, p->y_mult, p->y_shift, p->y_shift < 0), p->y_zero);
    } else {
        int32x4_t sum = vmlaq_n_s32(vmulq_n_s32(a, p->a_mult), b, p->b_mult);
        sum = vaddq_n_s32(sum, p->offset);
        if (KIND == 1) {
            const int32x4_t odd = vandq_s32(vshlq_r_s32(sum, -p->y_shift), vdupq_n_s32(1));
            sum = vaddq_s32(sum, odd);
        }
        return vshlq_r_s32(sum, -p->y_shift);
    }
}

/* The row of aot_qadd_s8_row with IA = IB = 1; 0 if it cannot be computed here. */
AOT_INLINE int aot_qmve_add_row(int8_t *y, const int8_t *a, const int8_t *b, ptrdiff_t n,
                                const aot_qbinary_params *p, int KIND) {
    const int32x4_t lo = vdupq_n_s32(p->lo), hi = vdupq_n_s32(p->hi);
    if (KIND == 2 && (p->a_shift > 0 || p->b_shift > 0 || p->y_shift > 0)) {
        return 0;
    }
    for (; n >= 4; n -= 4, y += 4, a += 4, b += 4) {
        const int32x4_t v = aot_qmve_add_four(vldrbq_s32(a), vldrbq_s32(b), p, KIND);
        vstrbq_s32(y, vminq_s32(vmaxq_s32(v, lo), hi));
    }
    if (n > 0) {
        const mve_pred16_t rest = vctp32q((uint32_t)n);
        const int32x4_t v =
            aot_qmve_add_four(vldrbq_z_s32(a, rest), vldrbq_z_s32(b, rest), p, KIND);
        vstrbq_p_s32(y, vminq_s32(vmaxq_s32(v, lo), hi), rest);
    }
    return 1;
}

#endif
#endif /* AOT_QBINARY_MVE_H */
