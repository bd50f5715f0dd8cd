/* SPDX-License-Identifier: MIT-0 */
/* The tile of aot_qdot.h by Arm's 8-bit matrix products (i8mm): an instruction multiplies two
 * pixels by two channels, over eight values at once.
 *
 * A pair of pixels is one of each segment, or where there is one segment two neighbours, of which
 * the last may be the same one twice. The sums of a pair and two channels are one vector
 * [first pixel: channel, channel + 1; second pixel: the same]. Weights are those of aot_qdot.h, two
 * groups of four bytes of a channel brought together in registers. Behind the last group of an odd
 * number stands one of zeros, so that values read behind a run count nothing.
 */
#ifndef AOT_QDOT_I8MM_H
#define AOT_QDOT_I8MM_H

#if defined(__ARM_FEATURE_MATMUL_INT8) && AOT_VLEN == 4
#define AOT_QDOT_I8MM 1
#define AOT_QDOT_PAIRS(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6)
#define AOT_QDOT_FIRST(i) (S > 1 || 2 * (i) < L ? (S > 1 ? (i) : 2 * (i)) : 0)
#define AOT_QDOT_SECOND(i) (S > 1 ? (i) : 2 * (i) + 1 < L ? 2 * (i) + 1 : AOT_QDOT_FIRST(i))
#define AOT_QDOT_HAS(i) ((S > 1 ? (i) : 2 * (i)) < L)
#define AOT_QDOT_BEGIN(i) int32x4_t a##i = b01, c##i = b23, d##i = b45, e##i = b67;
#define AOT_QDOT_STEP(i)                                                                           \
    if (AOT_QDOT_HAS(i)) {                                                                         \
        const int8x16_t x_ = vcombine_s8(vld1_s8(p + AOT_QDOT_FIRST(i) * step),                    \
                                         vld1_s8(q + AOT_QDOT_SECOND(i) * step));                  \
        a##i = vmmlaq_s32(a##i, x_, w01);                                                          \
        c##i = vmmlaq_s32(c##i, x_, w23);                                                          \
        if (O > 1) {                                                                               \
            d##i = vmmlaq_s32(d##i, x_, w45);                                                      \
            e##i = vmmlaq_s32(e##i, x_, w67);                                                      \
        }                                                                                          \
    }
#define AOT_QDOT_END(i)                                                                            \
    if (AOT_QDOT_HAS(i)) {                                                                         \
        aot_qdot_pair(sums + AOT_QDOT_FIRST(i) * O * 4, second + AOT_QDOT_SECOND(i) * O * 4, a##i, \
                      c##i);                                                                       \
        if (O > 1) {                                                                               \
            aot_qdot_pair(sums + AOT_QDOT_FIRST(i) * O * 4 + 4,                                    \
                          second + AOT_QDOT_SECOND(i) * O * 4 + 4, d##i, e##i);                    \
        }                                                                                          \
    }

/* v in both halves. */
AOT_INLINE int32x4_t aot_qdot_twice(int32x2_t v) {
    return vcombine_s32(v, v);
}

/* Stores the sums of two pixels and four channels, of which `low` has the lower two. */
AOT_INLINE void aot_qdot_pair(int32_t *first, int32_t *second, int32x4_t low, int32x4_t high) {
    vst1q_s32(second, vcombine_s32(vget_high_s32(low), vget_high_s32(high)));
    vst1q_s32(first, vcombine_s32(vget_low_s32(low), vget_low_s32(high)));
}

/* Eight values of each of channels 0 and 1 (2 and 3 where `upper`), of their groups g and h. */
AOT_INLINE int8x16_t aot_qdot_zip(const int8_t *g, const int8_t *h, int upper) {
    const int32x4_t a = vreinterpretq_s32_s8(vld1q_s8(g)), b = vreinterpretq_s32_s8(vld1q_s8(h));
    return vreinterpretq_s8_s32(upper ? vzip2q_s32(a, b) : vzip1q_s32(a, b));
}

AOT_INLINE void aot_qdot_unit(int32_t *sums, const uint8_t *x0, const uint8_t *x1, ptrdiff_t step,
                              const aot_qdot_window *window, const int8_t *w, const int32_t *bias,
                              int L, int S, int O) {
    static const int8_t none[32] = {0};
    const int32_t *const upper = bias + (O > 1 ? 4 : 0);
    const int32x4_t b01 = aot_qdot_twice(vld1_s32(bias)), b23 = aot_qdot_twice(vld1_s32(bias + 2));
    const int32x4_t b45 = aot_qdot_twice(vld1_s32(upper));
    const int32x4_t b67 = aot_qdot_twice(vld1_s32(upper + 2));
    int32_t *const second = sums + (S > 1 ? L * O * 4 : 0);
    int32_t a, b, k;
    AOT_QDOT_PAIRS(AOT_QDOT_BEGIN)
    for (a = 0; a < window->rows; ++a, x0 += window->row, x1 += window->row) {
        for (b = 0; b < window->cols; ++b) {
            const int8_t *p = (const int8_t *)x0 + b * window->col;
            const int8_t *q = S > 1 ? (const int8_t *)x1 + b * window->col : p;
            for (k = 0; k < window->four; k += 2, p += 8, q += 8) {
                const int8_t *const h = k + 1 < window->four ? w + O * 16 : none;
                const int more = O > 1 ? 16 : 0;
                const int8x16_t w01 = aot_qdot_zip(w, h, 0), w23 = aot_qdot_zip(w, h, 1);
                const int8x16_t w45 = aot_qdot_zip(w + more, h + more, 0);
                const int8x16_t w67 = aot_qdot_zip(w + more, h + more, 1);
                AOT_QDOT_PAIRS(AOT_QDOT_STEP)
                w += k + 1 < window->four ? O * 32 : O * 16;
            }
        }
    }
    AOT_QDOT_PAIRS(AOT_QDOT_END)
}
#endif

#endif /* AOT_QDOT_I8MM_H */
