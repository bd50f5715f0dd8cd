/* SPDX-License-Identifier: MIT-0 */
/* Depthwise convolution of int8 quantised values in portable C, one result per channel: parameters
 * in aot_qconv_s8_params.h (ic = oc channels).
 *
 * w [oc][kh][kw]. CB channels at a time, the rows that a row of results needs are copied to
 * scratch, with x_zero for what is outside: [(kh - 1) * dh + 1][width][CB] bytes, where
 * width = (ow - 1) * sw + (kw - 1) * dw + 1. In place where the results of a row never pass the
 * rows copied (the compiler decides).
 */
#ifndef AOT_QDWCONV_S8_H
#define AOT_QDWCONV_S8_H

#include "aot_qconv_s8_params.h"
#include "aot_qtile_s8.h"

/* The rows in scratch, and what a channel is multiplied with. */
typedef struct {
    int8_t *rows;
    int32_t pitch, ring; /* bytes of a row, number of rows */
    int32_t slot;        /* of the first row of the window */
    const int8_t *w;
    int32_t bias, mult, shift;
} aot_qdw_job;

/* CB bytes, by words where both addresses allow it. */
AOT_INLINE void aot_qdwconv_s8_copy(int8_t *d, const int8_t *s, int CB) {
    int i;
#if defined(__GNUC__)
    if ((((uintptr_t)d | (uintptr_t)s) & 3U) == 0) {
        (void)memcpy(__builtin_assume_aligned(d, 4), __builtin_assume_aligned(s, 4), (size_t)CB);
        return;
    }
#endif
    for (i = 0; i < CB; ++i) {
        d[i] = s[i];
    }
}

/* Copies image row `row`, columns -pl .. width-pl-1, channels c .. c+n-1 to d [width][CB]. */
AOT_INLINE void aot_qdwconv_s8_row(int8_t *d, const int8_t *x, const aot_qdwconv_s8_params *p,
                                   int32_t row, int32_t c, int n, int32_t width, int CB) {
    const int inside = row >= 0 && row < p->ih;
    const int8_t *s = AOT_ROWS_APART && !inside
                          ? x
                          : AOT_AT(x, row - p->x_row0, c - p->pl * p->ic,
                                   x + ((ptrdiff_t)(row - p->x_row0) * p->iw - p->pl) * p->ic + c);
    int32_t col;
    int i;
    for (col = -p->pl; col < width - p->pl; ++col, d += CB, s += p->ic) {
        if (!inside || col < 0 || col >= p->iw) {
            (void)memset(d, p->x_zero, (size_t)CB);
        } else if (n == CB) {
            aot_qdwconv_s8_copy(d, s, CB);
        } else {
            for (i = 0; i < n; ++i) {
                d[i] = s[i];
            }
        }
    }
}

/* One row of the window for P results, S columns apart: s[i] += sum of q[i * S + t] * w[t]. */
AOT_INLINE void aot_qdwconv_s8_taps(int32_t *s, const int8_t *q, const int8_t *w,
                                    const aot_qdwconv_s8_params *p, int P, int KW, int S, int CB) {
    int i, j, t;
    if (KW != 0) {
        int32_t v[8];
        AOT_UNROLL(8) for (t = 0; t < KW; ++t) {
            v[t] = w[t];
        }
        AOT_UNROLL(32) for (j = 0; j < (P - 1) * S + KW; ++j) {
            const int32_t u = q[j * CB];
            AOT_UNROLL(8) for (i = 0; i < P; ++i) {
                if (j >= i * S && j < i * S + KW) {
                    s[i] += u * v[j - i * S];
                }
            }
        }
        return;
    }
    for (j = 0; j < p->kw; ++j, q += (ptrdiff_t)p->dw * CB) {
        const int32_t v = w[j];
        AOT_UNROLL(8) for (i = 0; i < P; ++i) {
            s[i] += q[(ptrdiff_t)i * p->sw * CB] * v;
        }
    }
}

/* P results of one channel; `at` is the offset of the first column of their windows. */
AOT_INLINE void aot_qdwconv_s8_tile(int8_t *y, const aot_qdw_job *j, ptrdiff_t at,
                                    const aot_qdwconv_s8_params *p, int RQ, int P, int KH, int KW,
                                    int S, int CB) {
    const int32_t kh = KH != 0 ? KH : p->kh;
    /* Copies: the results might alias the parameters, as bytes may. */
    const int32_t mult = j->mult, shift = j->shift, zero = p->y_zero, lo = p->lo, hi = p->hi;
    const ptrdiff_t step = p->oc;
    const int8_t *w = j->w;
    int32_t s[8], a, slot = j->slot;
    int i;
    AOT_UNROLL(8) for (i = 0; i < P; ++i) {
        s[i] = j->bias;
    }
    for (a = 0; a < kh; ++a, w += KW != 0 ? KW : p->kw) {
        aot_qdwconv_s8_taps(s, j->rows + at + (ptrdiff_t)slot * j->pitch, w, p, P, KW, S, CB);
        slot += p->dh;
        slot = slot >= j->ring ? slot - j->ring : slot;
        AOT_QFENCE();
    }
    AOT_UNROLL(8) for (i = 0; i < P; ++i) {
        y[i * step] = (int8_t)aot_requant_value(s[i], mult, shift, zero, lo, hi, RQ);
    }
}

/* The channels c0 .. c0+n-1 of one row of results. */
AOT_INLINE void aot_qdwconv_s8_line(int8_t *y, aot_qdw_job *j, const int8_t *w, const int32_t *bias,
                                    const int32_t *mult, const int8_t *shift,
                                    const aot_qdwconv_s8_params *p, int32_t c0, int n, int RQ,
                                    int PC, int P, int KH, int KW, int S, int CB) {
    const int32_t taps = p->kh * p->kw;
    int32_t c, ox;
    for (c = c0; c < c0 + n; ++c, ++y) {
        ptrdiff_t at = c - c0;
        int8_t *d = y;
        j->w = w + (ptrdiff_t)c * taps;
        j->bias = bias[c];
        j->mult = mult[PC ? c : 0];
        j->shift = RQ != 0 ? shift[PC ? c : 0] : 0;
        for (ox = p->ow; ox >= P; ox -= P, at += (ptrdiff_t)P * p->sw * CB, d += P * p->oc) {
            aot_qdwconv_s8_tile(d, j, at, p, RQ, P, KH, KW, S, CB);
        }
        for (; ox > 0; --ox, at += (ptrdiff_t)p->sw * CB, d += p->oc) {
            aot_qdwconv_s8_tile(d, j, at, p, RQ, 1, KH, KW, S, CB);
        }
    }
}

/* Instance: RQ and PC as in aot_requant.h; P results at once; windows of KH rows (0: any) of KW
 * adjacent columns, S columns apart (KW 0: any); CB channels at a time. */
AOT_INLINE void aot_qdwconv_s8(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                               const int32_t *mult, const int8_t *shift, void *scratch,
                               const aot_qdwconv_s8_params *p, int RQ, int PC, int P, int KH,
                               int KW, int S, int CB) {
    const int32_t ring = (p->kh - 1) * p->dh + 1;
    const int32_t width = (p->ow - 1) * p->sw + (p->kw - 1) * p->dw + 1;
    aot_qdw_job j;
    int32_t image, c0, oy;
    (void)memset(&j, 0, sizeof j);
    j.rows = (int8_t *)scratch;
    j.pitch = width * CB;
    j.ring = ring;
    for (image = 0; image < p->n; ++image) {
        const int8_t *const xi = x + (ptrdiff_t)image * p->ih * p->iw * p->ic;
        int8_t *const yi = y + ((ptrdiff_t)image * p->oh - p->y_row0) * p->ow * p->oc;
        for (c0 = 0; c0 < p->oc; c0 += CB) {
            const int n = p->oc - c0 < CB ? (int)(p->oc - c0) : CB;
            int32_t next = p->y0 * p->sh - p->pt, free = 0;
            j.slot = 0;
            for (oy = p->y0; oy < p->y1; ++oy) {
                const int32_t first = oy * p->sh - p->pt;
                if (next < first) { /* rows that no window reads */
                    next = first;
                    free = j.slot = 0;
                }
                for (; next < first + ring; ++next) {
                    aot_qdwconv_s8_row(j.rows + (ptrdiff_t)free * j.pitch, xi, p, next, c0, n,
                                       width, CB);
                    free = free + 1 == ring ? 0 : free + 1;
                }
                aot_qdwconv_s8_line(yi + (ptrdiff_t)oy * p->ow * p->oc + c0, &j, w, bias, mult,
                                    shift, p, c0, n, RQ, PC, P, KH, KW, S, CB);
                j.slot += p->sh;
                j.slot = j.slot >= ring ? j.slot % ring : j.slot;
            }
        }
    }
}

#endif /* AOT_QDWCONV_S8_H */
