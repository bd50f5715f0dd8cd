/* SPDX-License-Identifier: MIT-0 */
/* Depthwise convolution of int8 codes in portable C, one result per channel: parameters in
 * aot_qconv_s8_params.h (ic = oc channels).
 *
 * w [oc][kh][kw]. CB channels at a time, the rows that a row of results needs are copied to
 * scratch, with x_zero for what is outside: [(kh - 1) * dh + 1][width][CB] bytes, where
 * width = (ow - 1) * sw + (kw - 1) * dw + 1. In place where the results of a row never pass the
 * rows copied (aot/ops/qconv_portable.py decides).
 */
#ifndef AOT_QDWCONV_S8_H
#define AOT_QDWCONV_S8_H

#include "aot_qconv_s8_params.h"
#include "aot_qtile_s8.h"

#define AOT_QDW_PIXELS 4 /* results in registers */

/* Copies image row `row`, columns -pl .. width-pl-1, channels c .. c+n-1 to d [width][CB]. */
AOT_INLINE void aot_qdwconv_s8_row(int8_t *d, const int8_t *x, const aot_qdwconv_s8_params *p,
                                   int32_t row, int32_t c, int n, int32_t width, int CB) {
    const int inside = row >= 0 && row < p->ih;
    const int8_t *s = x + ((ptrdiff_t)(row - p->x_row0) * p->iw - p->pl) * p->ic + c;
    int32_t col;
    int i;
    for (col = -p->pl; col < width - p->pl; ++col, d += CB, s += p->ic) {
        if (!inside || col < 0 || col >= p->iw) {
            memset(d, p->x_zero, (size_t)CB);
        } else if (n == CB) {
            AOT_UNROLL(16) for (i = 0; i < CB; ++i) {
                d[i] = s[i];
            }
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
        AOT_UNROLL(16) for (j = 0; j < (P - 1) * S + KW; ++j) {
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

/* P results of one channel; rows of the window start at q in the ring, the first in slot `slot`. */
AOT_INLINE void aot_qdwconv_s8_tile(int8_t *y, const int8_t *q, const int8_t *w, int32_t bias,
                                    int32_t mult, int32_t shift, int32_t slot, int32_t ring,
                                    int32_t pitch, const aot_qdwconv_s8_params *p, int RQ, int P,
                                    int KW, int S, int CB) {
    int32_t s[AOT_QDW_PIXELS];
    int32_t a;
    int i;
    AOT_UNROLL(8) for (i = 0; i < P; ++i) {
        s[i] = bias;
    }
    for (a = 0; a < p->kh; ++a, w += p->kw) {
        aot_qdwconv_s8_taps(s, q + (ptrdiff_t)slot * pitch, w, p, P, KW, S, CB);
        slot += p->dh;
        slot = slot >= ring ? slot - ring : slot;
    }
    AOT_UNROLL(8) for (i = 0; i < P; ++i) {
        y[(ptrdiff_t)i * p->oc] =
            (int8_t)aot_requant_code(s[i], mult, shift, p->y_zero, p->lo, p->hi, RQ);
    }
}

/* Instance: RQ and PC as in aot_requant.h; windows of KW adjacent columns, S columns apart (KW 0:
 * any); CB channels at a time. */
AOT_INLINE void aot_qdwconv_s8(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                               const int32_t *mult, const int8_t *shift, void *scratch,
                               const aot_qdwconv_s8_params *p, int RQ, int PC, int KW, int S,
                               int CB) {
    const int32_t ring = (p->kh - 1) * p->dh + 1, taps = p->kh * p->kw;
    const int32_t width = (p->ow - 1) * p->sw + (p->kw - 1) * p->dw + 1, pitch = width * CB;
    int8_t *const rows = (int8_t *)scratch;
    int32_t image, c0, oy, ox;
    int c;
    for (image = 0; image < p->n; ++image) {
        const int8_t *const xi = x + (ptrdiff_t)image * p->ih * p->iw * p->ic;
        int8_t *const yi = y + ((ptrdiff_t)image * p->oh - p->y_row0) * p->ow * p->oc;
        for (c0 = 0; c0 < p->oc; c0 += CB) {
            const int n = p->oc - c0 < CB ? (int)(p->oc - c0) : CB;
            int32_t next = p->y0 * p->sh - p->pt, slot = 0, free = 0;
            for (oy = p->y0; oy < p->y1; ++oy) {
                const int32_t first = oy * p->sh - p->pt;
                int8_t *const yr = yi + (ptrdiff_t)oy * p->ow * p->oc + c0;
                if (next < first) { /* rows that no window reads */
                    next = first;
                    free = slot = 0;
                }
                for (; next < first + ring; ++next) {
                    aot_qdwconv_s8_row(rows + (ptrdiff_t)free * pitch, xi, p, next, c0, n, width,
                                       CB);
                    free = free + 1 == ring ? 0 : free + 1;
                }
                for (c = 0; c < n; ++c) {
                    const ptrdiff_t k = c0 + c, m = PC ? k : 0;
                    const int32_t mu = mult[m], sh = RQ != 0 ? shift[m] : 0;
                    const int8_t *q = rows + c;
                    int8_t *d = yr + c;
                    for (ox = p->ow; ox >= AOT_QDW_PIXELS; ox -= AOT_QDW_PIXELS) {
                        aot_qdwconv_s8_tile(d, q, w + k * taps, bias[k], mu, sh, slot, ring, pitch,
                                            p, RQ, AOT_QDW_PIXELS, KW, S, CB);
                        q += (ptrdiff_t)AOT_QDW_PIXELS * p->sw * CB;
                        d += (ptrdiff_t)AOT_QDW_PIXELS * p->oc;
                    }
                    for (; ox > 0; --ox) {
                        aot_qdwconv_s8_tile(d, q, w + k * taps, bias[k], mu, sh, slot, ring, pitch,
                                            p, RQ, 1, KW, S, CB);
                        q += (ptrdiff_t)p->sw * CB;
                        d += p->oc;
                    }
                }
                slot += p->sh;
                slot = slot >= ring ? slot % ring : slot;
            }
        }
    }
}

#endif /* AOT_QDWCONV_S8_H */
