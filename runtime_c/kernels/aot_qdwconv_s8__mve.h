/* SPDX-License-Identifier: MIT-0 */
/* Depthwise convolution of int8 quantised values (one filter per channel), channels last, for Arm's
 * vector extension.
 *
 * x [n][ih][iw][c], y [n][oh][ow][c], w [ceil(c / 16)][kh * kw][16] without -128, zeros where there
 * is no channel; bias[c] with -x_zero * (sum of the weights), mult and shift as in aot_requant.h
 * (one element in all with PC 0).
 *
 * Sixteen channels at once: products of two taps are added in 16 bits, then in 32. Every tap has a
 * pointer, to quantised values x_zero where it is outside the image. Scratch, in bytes, with T = kh
 * * kw and P = T rounded up to 4: 12 * P + (c rounded up to 16), and 8 * P + 16 * T more if c is no
 * multiple of
 * 16. NEG 0 if no quantised value below y_zero is ever stored; NINE 1 if T is 9; GROUP 16 / c
 * pixels are computed at once if that is possible (weights repeated, stride 1), else 1. Rows
 * y0..y1-1 of the output are computed; x points at image row x_row0, y at output row y_row0. y must
 * not overlap x.
 */
#ifndef AOT_QDWCONV_S8__MVE_H
#define AOT_QDWCONV_S8__MVE_H

#include "aot_qconv_s8_params.h"
#include "aot_qmve.h"

typedef aot_qdwconv_s8_params aot_qdwconv_s8__mve_params;

/* Blocks of sixteen channels of one pixel. The order of the members is known to the quantised value
 * below; it moves the pointers on. */
typedef struct {
    const int32_t *bias, *mult;
    const int8_t *shift;
    int8_t *y;
    const int8_t *w_end, *w;
    const int8_t *const *taps;
    int32_t count;
    int8_t lo[16], hi[16];
    int16_t zero[8];
} aot_qdwconv_s8__mve_job;

AOT_INLINE void aot_qdwconv_s8__mve_plain(const aot_qdwconv_s8__mve_job *j, int RQ, int PC) {
    const int8_t *w = j->w;
    int32_t c, i, t;
    for (c = 0; w != j->w_end; c += 16, w += (ptrdiff_t)j->count * 16) {
        for (i = 0; i < 16; ++i) {
            const int32_t at = PC ? c + i : 0, shift = RQ == 0 ? 0 : j->shift[at];
            int32_t sum = j->bias[c + i];
            for (t = 0; t < j->count; ++t) {
                sum += j->taps[t][c + i] * w[t * 16 + i];
            }
            j->y[c + i] = (int8_t)aot_requant_value(sum, j->mult[at], shift, j->zero[0], j->lo[0],
                                                    j->hi[0], RQ);
        }
    }
}

#if AOT_QMVE

/* Products of sixteen channels with the next weights: even ones to q6, odd ones to q7. */
#define AOT_QDW_MUL(x, step)                                                                       \
    "vldrb.u8 q4, [" x "]" step "\n"                                                               \
    "vldrb.u8 q5, [r10], #16\n"                                                                    \
    "vmullb.s8 q6, q4, q5\n"                                                                       \
    "vmullt.s8 q7, q4, q5\n"

/* Products of another tap are added to them. */
#define AOT_QDW_ADD(x, step)                                                                       \
    "vldrb.u8 q4, [" x "]\n"                                                                       \
    "vldrb.u8 q5, [r10], #16\n"                                                                    \
    "vmullb.s8 q4, q4, q5\n"                                                                       \
    "vadd.i16 q6, q6, q4\n"                                                                        \
    "vldrb.u8 q4, [" x "]" step "\n"                                                               \
    "vmullt.s8 q4, q4, q5\n"                                                                       \
    "vadd.i16 q7, q7, q4\n"

/* The sums begin with them (q0: channels 0, 4 ..; q1: 2, 6 ..; q2: 1, 5 ..; q3: 3, 7 ..). */
#define AOT_QDW_FIRST                                                                              \
    "vmovlb.s16 q0, q6\n"                                                                          \
    "vmovlt.s16 q1, q6\n"                                                                          \
    "vmovlb.s16 q2, q7\n"                                                                          \
    "vmovlt.s16 q3, q7\n"

/* They are added to the sums. */
#define AOT_QDW_SUM                                                                                \
    "vmovlb.s16 q4, q6\n"                                                                          \
    "vadd.i32 q0, q0, q4\n"                                                                        \
    "vmovlt.s16 q6, q6\n"                                                                          \
    "vadd.i32 q1, q1, q6\n"                                                                        \
    "vmovlb.s16 q4, q7\n"                                                                          \
    "vadd.i32 q2, q2, q4\n"                                                                        \
    "vmovlt.s16 q7, q7\n"                                                                          \
    "vadd.i32 q3, q3, q7\n"

#define AOT_QDW_PAIR(a, b) AOT_QDW_MUL(a, ", #16") AOT_QDW_ADD(b, ", #16") AOT_QDW_SUM

/* Nine taps, their pointers in registers that move on; r10 w. */
#define AOT_QDW_NINE                                                                               \
    "ldrd r10, r12, [%[j], #20]\n"                                                                 \
    "ldm r12, {r0, r1, r2, r3, r4, r5, r6, r8, r9}\n"                                              \
    "1:\n" AOT_QDW_MUL("r0", ", #16") AOT_QDW_ADD("r1", ", #16")                                   \
        AOT_QDW_FIRST AOT_QDW_PAIR("r2", "r3") AOT_QDW_PAIR("r4", "r5") AOT_QDW_PAIR("r6", "r8")   \
            AOT_QDW_MUL("r9", ", #16") AOT_QDW_SUM

/* Any number of taps: r0 their pointers, r1 how many, r2 first channel. */
#define AOT_QDW_ANY                                                                                \
    "ldr r10, [%[j], #20]\n"                                                                       \
    "mov r2, #0\n"                                                                                 \
    "1: ldrd r0, r1, [%[j], #24]\n"                                                                \
    "vmov.i32 q0, #0\n"                                                                            \
    "vmov.i32 q1, #0\n"                                                                            \
    "vmov.i32 q2, #0\n"                                                                            \
    "vmov.i32 q3, #0\n"                                                                            \
    "subs r1, r1, #2\n"                                                                            \
    "blt 3f\n"                                                                                     \
    "2: ldrd r3, r4, [r0], #8\n"                                                                   \
    "add r3, r3, r2\n"                                                                             \
    "add r4, r4, r2\n" AOT_QDW_MUL("r3", "") AOT_QDW_ADD("r4", "") AOT_QDW_SUM                     \
        "subs r1, r1, #2\n"                                                                        \
        "bge 2b\n"                                                                                 \
        "3: tst r1, #1\n"                                                                          \
        "beq 4f\n"                                                                                 \
        "ldr r3, [r0]\n"                                                                           \
        "add r3, r3, r2\n" AOT_QDW_MUL("r3", "") AOT_QDW_SUM "4: add r2, r2, #16\n"

/* Sixteen words from `from` on, in the order of the sums: q4, q6, q5, q7. */
#define AOT_QDW_WORDS(from, move)                                                                  \
    "vld40.32 {q4, q5, q6, q7}, [" from "]\n"                                                      \
    "vld41.32 {q4, q5, q6, q7}, [" from "]\n"                                                      \
    "vld42.32 {q4, q5, q6, q7}, [" from "]\n"                                                      \
    "vld43.32 {q4, q5, q6, q7}, [" from "]" move "\n"

/* Adds the bias and loads the multipliers; r12 becomes shift, lr y. */
#define AOT_QDW_BIAS(move)                                                                         \
    "ldrd r12, lr, [%[j]]\n" AOT_QDW_WORDS("r12", "!") "vadd.i32 q0, q0, q4\n"                     \
                                                       "vadd.i32 q1, q1, q6\n"                     \
                                                       "vadd.i32 q2, q2, q5\n"                     \
                                                       "vadd.i32 q3, q3, q7\n" AOT_QDW_WORDS(      \
                                                           "lr", move) "strd r12, lr, [%[j]]\n"    \
                                                                       "ldrd r12, lr, [%[j], "     \
                                                                       "#8]\n"

#define AOT_QDW_FLOAT(step)                                                                        \
    "vcvt.f32.s32 q0, q0\n"                                                                        \
    "vcvt.f32.s32 q1, q1\n"                                                                        \
    "vcvt.f32.s32 q2, q2\n"                                                                        \
    "vcvt.f32.s32 q3, q3\n"                                                                        \
    "vmul.f32 q0, q0, q4\n"                                                                        \
    "vmul.f32 q1, q1, q6\n"                                                                        \
    "vmul.f32 q2, q2, q5\n"                                                                        \
    "vmul.f32 q3, q3, q7\n"                                                                        \
    "vcvtn.s32.f32 q0, q0\n"                                                                       \
    "vcvtn.s32.f32 q1, q1\n"                                                                       \
    "vcvtn.s32.f32 q2, q2\n"                                                                       \
    "vcvtn.s32.f32 q3, q3\n"

/* Halves go away from zero: negative numbers are made smaller by one before. */
#define AOT_QDW_AWAY(q)                                                                            \
    "vshr.s32 q4, " q ", #31\n"                                                                    \
    "vadd.i32 " q ", " q ", q4\n"

#define AOT_QDW_FIXED_(step, away)                                                                 \
    "vqrdmulh.s32 q0, q0, q4\n"                                                                    \
    "vqrdmulh.s32 q1, q1, q6\n"                                                                    \
    "vqrdmulh.s32 q2, q2, q5\n"                                                                    \
    "vqrdmulh.s32 q3, q3, q7\n" away "vldrb.u8 q4, [r12]" step "\n"                                \
    "vmovlb.s8 q5, q4\n"                                                                           \
    "vmovlt.s8 q4, q4\n"                                                                           \
    "vmovlb.s16 q6, q5\n"                                                                          \
    "vmovlt.s16 q5, q5\n"                                                                          \
    "vmovlb.s16 q7, q4\n"                                                                          \
    "vmovlt.s16 q4, q4\n"                                                                          \
    "vrshl.s32 q0, q0, q6\n"                                                                       \
    "vrshl.s32 q1, q1, q5\n"                                                                       \
    "vrshl.s32 q2, q2, q7\n"                                                                       \
    "vrshl.s32 q3, q3, q4\n"
#define AOT_QDW_FIXED(step)                                                                        \
    AOT_QDW_FIXED_(step,                                                                           \
                   AOT_QDW_AWAY("q0") AOT_QDW_AWAY("q1") AOT_QDW_AWAY("q2") AOT_QDW_AWAY("q3"))
#define AOT_QDW_RELU(step) AOT_QDW_FIXED_(step, "")

/* Zero point, bounds, store; the next sixteen channels. */
#define AOT_QDW_STORE                                                                              \
    "vqmovnb.s32 q0, q0\n"                                                                         \
    "vqmovnt.s32 q0, q1\n"                                                                         \
    "vqmovnb.s32 q2, q2\n"                                                                         \
    "vqmovnt.s32 q2, q3\n"                                                                         \
    "vldrw.u32 q4, [%[j], #64]\n"                                                                  \
    "vqadd.s16 q0, q0, q4\n"                                                                       \
    "vqadd.s16 q2, q2, q4\n"                                                                       \
    "vqmovnb.s16 q0, q0\n"                                                                         \
    "vqmovnt.s16 q0, q2\n"                                                                         \
    "vldrw.u32 q4, [%[j], #32]\n"                                                                  \
    "vmax.s8 q0, q0, q4\n"                                                                         \
    "vldrw.u32 q4, [%[j], #48]\n"                                                                  \
    "vmin.s8 q0, q0, q4\n"                                                                         \
    "vstrb.8 q0, [lr], #16\n"                                                                      \
    "strd r12, lr, [%[j], #8]\n"                                                                   \
    "ldr r12, [%[j], #16]\n"                                                                       \
    "cmp r10, r12\n"                                                                               \
    "bne 1b\n"

#define AOT_QDW_RUN(taps, requant, move, step)                                                     \
    __asm__ volatile(taps AOT_QDW_BIAS(move) AOT_QDW_##requant(step) AOT_QDW_STORE                 \
                     :                                                                             \
                     : [j] "r"(j)                                                                  \
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr",   \
                       "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory")

#define AOT_QDW_RUN_PC(taps, requant, PC)                                                          \
    do {                                                                                           \
        if (PC) {                                                                                  \
            AOT_QDW_RUN(taps, requant, "!", ", #16");                                              \
        } else {                                                                                   \
            AOT_QDW_RUN(taps, requant, "", "");                                                    \
        }                                                                                          \
    } while (0)

#if AOT_QMVE_FLOAT
#define AOT_QDW_RUN_FLOAT(taps, PC) AOT_QDW_RUN_PC(taps, FLOAT, PC)
#else
#define AOT_QDW_RUN_FLOAT(taps, PC) (void)0
#endif

#define AOT_QDW_RUN_ALL(taps, RQ, PC, NEG)                                                         \
    do {                                                                                           \
        if (RQ == 0) {                                                                             \
            AOT_QDW_RUN_FLOAT(taps, PC);                                                           \
        } else if (NEG) {                                                                          \
            AOT_QDW_RUN_PC(taps, FIXED, PC);                                                       \
        } else {                                                                                   \
            AOT_QDW_RUN_PC(taps, RELU, PC);                                                        \
        }                                                                                          \
    } while (0)

/* n multiples of four pointers move on by their own steps. */
AOT_INLINE void aot_qdwconv_s8__mve_advance(const int8_t **taps, const int32_t *step, int32_t n) {
    __asm__ volatile("dls lr, %[n]\n"
                     "1: vldrw.u32 q0, [%[taps]]\n"
                     "vldrw.u32 q1, [%[step]], #16\n"
                     "vadd.i32 q0, q0, q1\n"
                     "vstrw.32 q0, [%[taps]], #16\n"
                     "le lr, 1b\n"
                     : [taps] "+r"(taps), [step] "+r"(step)
                     : [n] "r"((uint32_t)n / 4)
                     : "q0", "q1", "lr", "cc", "memory");
}

#else

#define AOT_QDW_RUN_ALL(taps, RQ, PC, NEG) (void)0

AOT_INLINE void aot_qdwconv_s8__mve_advance(const int8_t **taps, const int32_t *step, int32_t n) {
    int32_t t;
    for (t = 0; t < n; ++t) {
        taps[t] += step[t];
    }
}

#endif /* AOT_QMVE */

AOT_INLINE void aot_qdwconv_s8__mve_run(aot_qdwconv_s8__mve_job *j, int fast, int RQ, int PC,
                                        int NEG, int NINE) {
    if (!AOT_QMVE_VECTOR(RQ) || !fast) {
        aot_qdwconv_s8__mve_plain(j, RQ, PC);
    } else if (NINE != 0) {
        AOT_QDW_RUN_ALL(AOT_QDW_NINE, RQ, PC, NEG);
    } else {
        AOT_QDW_RUN_ALL(AOT_QDW_ANY, RQ, PC, NEG);
    }
    (void)NEG;
    (void)NINE;
}

/* What does not change from pixel to pixel; tables and quantised values are in scratch. */
typedef struct {
    const int8_t *w;
    const int32_t *bias, *mult;
    const int8_t *shift;
    const int8_t **taps, **copies;
    int32_t *step;
    int8_t *outside;
    int32_t full, rest, padded, fast;
    int32_t inside, inside_end; /* pixels of a row whose windows are inside its columns */
    int32_t tail_bias[16], tail_mult[16];
    int8_t tail_shift[16];
} aot_qdwconv_s8__mve_state;

AOT_INLINE void aot_qdwconv_s8__mve_prepare(aot_qdwconv_s8__mve_state *t, const int8_t *w,
                                            const int32_t *bias, const int32_t *mult,
                                            const int8_t *shift, void *scratch,
                                            const aot_qdwconv_s8__mve_params *p, int RQ, int PC,
                                            int NEG) {
    const int32_t values = (p->oc + 15) & ~15;
    int32_t i;
    t->w = w;
    t->bias = bias;
    t->full = p->oc & ~15;
    t->rest = p->oc - t->full;
    t->padded = (p->kh * p->kw + 3) & ~3;
    t->fast = aot_qmve_fast(shift, PC ? p->oc : 1, RQ, NEG);
    t->inside = (p->pl + p->sw - 1) / p->sw;
    t->inside_end = (p->iw + p->pl - (p->kw - 1) * p->dw - 1 + p->sw) / p->sw;
    t->inside_end = t->inside_end < p->ow ? t->inside_end : p->ow;
    t->taps = (const int8_t **)scratch;
    t->copies = t->taps + t->padded;
    t->step = (int32_t *)(void *)(t->copies + (t->rest != 0 ? t->padded : 0));
    t->outside = (int8_t *)(t->step + t->padded);
    for (i = 0; i < 16; ++i) {
        const int32_t c = (t->full + i) % p->oc; /* repeated, for groups of pixels */
        t->tail_bias[i] = bias[c];
        t->tail_mult[i] = mult[PC ? c : 0];
        t->tail_shift[i] = RQ == 0 ? (int8_t)0 : shift[PC ? c : 0];
    }
    t->mult = PC ? mult : t->tail_mult;
    t->shift = PC && RQ != 0 ? shift : t->tail_shift;
    for (i = p->kh * p->kw; i < t->padded; ++i) {
        t->taps[i] = t->outside;
        t->step[i] = 0;
    }
    aot_qmve_fill(t->outside, p->x_zero, values);
    for (i = 0; t->rest != 0 && i < p->kh * p->kw; ++i) {
        int8_t *const copy = t->outside + values + i * 16;
        aot_qmve_fill(copy, 0, 16);
        t->copies[i] = copy;
    }
}

/* Points every tap at its quantised values for the window whose corner is row iy, column ix; they
 * move on by `move` bytes. */
AOT_INLINE void aot_qdwconv_s8__mve_aim(const aot_qdwconv_s8__mve_state *t, const int8_t *x,
                                        const aot_qdwconv_s8__mve_params *p, int32_t iy, int32_t ix,
                                        int32_t move) {
    const ptrdiff_t next = (ptrdiff_t)p->dw * p->ic;
    const int8_t **tap = t->taps;
    int32_t *step = t->step, a, b;
    for (a = 0; a < p->kh; ++a, iy += p->dh) {
        const int32_t end = iy >= 0 && iy < p->ih ? p->iw : 0;
        ptrdiff_t at = ((ptrdiff_t)(iy - p->x_row0) * p->iw + ix) * p->ic;
        int32_t column = ix;
        (void)at;
        for (b = 0; b < p->kw; ++b, column += p->dw, at += next, ++tap, ++step) {
            if (column >= 0 && column < end) {
                *tap = AOT_AT(x, iy - p->x_row0, column * p->ic, x + at);
                *step = move;
            } else {
                *tap = t->outside;
                *step = 0;
            }
        }
    }
}

/* Where the blocks of a pixel, or the block of a group of pixels, begin. */
AOT_INLINE void aot_qdwconv_s8__mve_begin(aot_qdwconv_s8__mve_job *j,
                                          const aot_qdwconv_s8__mve_state *t, int GROUP) {
    const int32_t values = GROUP > 1 ? 16 : t->full;
    j->w = t->w;
    j->w_end = t->w + (ptrdiff_t)values * j->count;
    j->taps = t->taps;
}

/* All of them, to y. */
AOT_INLINE void aot_qdwconv_s8__mve_blocks(aot_qdwconv_s8__mve_job *j,
                                           const aot_qdwconv_s8__mve_state *t, int8_t *y, int RQ,
                                           int PC, int NEG, int NINE, int GROUP) {
    j->bias = GROUP > 1 ? t->tail_bias : t->bias;
    j->mult = GROUP > 1 ? t->tail_mult : t->mult;
    j->shift = GROUP > 1 ? t->tail_shift : t->shift;
    j->y = y;
    aot_qdwconv_s8__mve_run(j, t->fast, RQ, PC, NEG, NINE);
}

/* The channels after the last sixteen: their quantised values are copied. */
AOT_INLINE void aot_qdwconv_s8__mve_tail(aot_qdwconv_s8__mve_job *j,
                                         const aot_qdwconv_s8__mve_state *t, int8_t *values) {
    const int32_t codes_all = t->full + 16;
    int32_t i;
    for (i = 0; i < j->count; ++i) {
        aot_qmve_copy(t->outside + codes_all + i * 16, t->taps[i] + t->full, t->rest);
    }
    j->bias = t->tail_bias;
    j->mult = t->tail_mult;
    j->shift = t->tail_shift;
    j->y = values;
    j->w = t->w + (ptrdiff_t)t->full * j->count;
    j->w_end = j->w + (ptrdiff_t)j->count * 16;
    j->taps = t->copies;
}

/* One pixel: the blocks of sixteen channels, then the rest. */
AOT_INLINE void aot_qdwconv_s8__mve_pixel(aot_qdwconv_s8__mve_job *j,
                                          const aot_qdwconv_s8__mve_state *t, int8_t *y, int RQ,
                                          int PC, int NEG, int NINE) {
    int8_t values[16];
    if (t->full != 0) {
        aot_qdwconv_s8__mve_begin(j, t, 1);
        aot_qdwconv_s8__mve_blocks(j, t, y, RQ, PC, NEG, NINE, 1);
    }
    if (t->rest != 0) {
        aot_qdwconv_s8__mve_tail(j, t, values);
        aot_qdwconv_s8__mve_run(j, t->fast, RQ, PC, NEG, NINE);
        aot_qmve_copy(y + t->full, values, t->rest);
    }
}

/* Pixels or groups of pixels from ox on whose windows are inside the image's columns; returns the
 * pixel after the last one. */
AOT_INLINE int32_t aot_qdwconv_s8__mve_inside(aot_qdwconv_s8__mve_job *j,
                                              const aot_qdwconv_s8__mve_state *t, int8_t *y,
                                              int32_t ox, int32_t channels, int RQ, int PC, int NEG,
                                              int NINE, int GROUP) {
    aot_qdwconv_s8__mve_begin(j, t, GROUP);
    for (;;) {
        aot_qdwconv_s8__mve_blocks(j, t, y, RQ, PC, NEG, NINE, GROUP);
        ox += GROUP;
        if (ox + GROUP > t->inside_end) {
            return ox;
        }
        y += GROUP * channels;
        aot_qdwconv_s8__mve_advance(t->taps, t->step, t->padded);
    }
}

/* One row of the output. */
AOT_INLINE void aot_qdwconv_s8__mve_row(aot_qdwconv_s8__mve_job *j,
                                        const aot_qdwconv_s8__mve_state *t, int8_t *y,
                                        const int8_t *x, const aot_qdwconv_s8__mve_params *p,
                                        int32_t oy, int RQ, int PC, int NEG, int NINE, int GROUP) {
    const int32_t iy = oy * p->sh - p->pt, move = p->sw * p->ic * GROUP;
    int32_t ox = 0;
    while (ox < p->ow) {
        int8_t *const to = y + (ptrdiff_t)ox * p->oc;
        aot_qdwconv_s8__mve_aim(t, x, p, iy, ox * p->sw - p->pl, move);
        if ((GROUP > 1 || t->rest == 0) && ox >= t->inside && ox + GROUP <= t->inside_end) {
            ox = aot_qdwconv_s8__mve_inside(j, t, to, ox, p->oc, RQ, PC, NEG, NINE, GROUP);
        } else {
            aot_qdwconv_s8__mve_pixel(j, t, to, RQ, PC, NEG, NINE);
            ++ox;
        }
    }
}

AOT_INLINE void aot_qdwconv_s8__mve(int8_t *y, const int8_t *x, const int8_t *w,
                                    const int32_t *bias, const int32_t *mult, const int8_t *shift,
                                    void *scratch, const aot_qdwconv_s8__mve_params *p, int RQ,
                                    int PC, int NEG, int NINE, int GROUP) {
    const ptrdiff_t x_image = (ptrdiff_t)p->ih * p->iw * p->ic;
    const ptrdiff_t y_image = (ptrdiff_t)p->oh * p->ow * p->oc;
    aot_qdwconv_s8__mve_state t;
    aot_qdwconv_s8__mve_job j;
    int32_t image, oy, i;
    aot_qdwconv_s8__mve_prepare(&t, w, bias, mult, shift, scratch, p, RQ, PC, NEG);
    j.count = p->kh * p->kw;
    (void)memset(j.lo, p->lo, sizeof j.lo);
    (void)memset(j.hi, p->hi, sizeof j.hi);
    for (i = 0; i < 8; ++i) {
        j.zero[i] = (int16_t)p->y_zero;
    }
    for (image = 0; image < p->n; ++image, x += x_image, y += y_image) {
        for (oy = p->y0; oy < p->y1; ++oy) {
            aot_qdwconv_s8__mve_row(&j, &t, y + (ptrdiff_t)(oy - p->y_row0) * p->ow * p->oc, x, p,
                                    oy, RQ, PC, NEG, NINE, GROUP);
        }
    }
}

#endif /* AOT_QDWCONV_S8__MVE_H */
