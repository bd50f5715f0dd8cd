/* SPDX-License-Identifier: MIT-0 */
/* Convolution of blocked tensors with small windows by Winograd's F(M,K): no dilation, one group.
 * With stride 1, T = M + K - 1 products per M outputs of an axis with a window of K; an axis with a
 * window of 1 has one of each. Windows of two axes take T * T products per MH * MW outputs.
 *
 * With stride 2 a window of 3 has T = 5 products for 2 outputs instead of 6:
 *     y0 = (d0 - d2) g0 + d1 g1 + d2 (g0 + g2)    y1 = d2 (g0 + g2) + (d4 - d2) g2 + d3 g1
 * The first two and the last two go to one output alone, so that one sum takes both: 3 sums.
 *
 * The points are 0, infinity and 1, -1 (T = 4), A, -A, B, -B (T = 6: they err half as much as 1,
 * -1, 2, -2, and their powers are exact), 1, -1, 2, -2, 1/2, -1/2 (T = 8). AOT_WINOGRAD_RUN
 * channels are summed up at a time, with T = 8 half as many, for what its sums round is magnified
 * most. aot/ops/conv_winograd.py has the errors beside those of a plain sum.
 *
 * V = AOT_VLEN. x, y, r, bias as in aot_conv_f32_blocked.h; w one panel per group of O vectors of
 * output channels: [TH * TW][ic][O * V], the transformed weights; those of a sum follow each other.
 * Tiles are taken `tiles` at a time: inputs transformed, TH * TW small matrix products on the
 * register tile of aot_tile_f32.h, outputs transformed with bias, r and activation.
 * Scratch, in floats: tiles * V * (TH * TW * ceil(ic/V) + RH * RW * O); R is 3 if T is 5, else T.
 * Rows y0..y1-1 of the output are computed; x points at image row x_row0, y and r at output row
 * y_row0; tiles begin at y0, so ranges from multiples of MH give the bits of the whole, and read
 * the image rows of whole tiles. In place: y may be r.
 */
#ifndef AOT_WINOGRAD_F32_BLOCKED_H
#define AOT_WINOGRAD_F32_BLOCKED_H

#include "aot_conv_act_f32.h"
#include "aot_tile_f32.h"

/* The points A and B of T = 6, which aot/ops/conv_pack.py has, too. */
#define AOT_WINOGRAD_A 0.625F
#define AOT_WINOGRAD_B 1.5F
#define AOT_WINOGRAD_A2 (AOT_WINOGRAD_A * AOT_WINOGRAD_A)
#define AOT_WINOGRAD_B2 (AOT_WINOGRAD_B * AOT_WINOGRAD_B)
#define AOT_WINOGRAD_RUN(T) ((T) == 8 ? 16 : 32)
/* Outputs of a tile along an axis with T points and a window of K. */
#define AOT_WINOGRAD_M(T, K) ((T) == 5 ? 2 : (T) - (K) + 1)

typedef struct {
    int32_t n, ic, ih, iw, oc, oh, ow;
    int32_t kh, kw, sh, sw, dh, dw, pt, pl;
    int32_t tiles;
    int32_t y0, y1, x_row0, y_row0;
    int32_t x_row;
    int64_t x_plane, x_batch, y_plane, y_batch;
    int32_t act;
    float alpha, beta;
} aot_winograd_f32_blocked_params;

/* No sum here has two products that are rounded: which of them a fused multiplication takes is up
 * to the compiler, and the parts of a call that is shared must give the bits of the whole. */

/* One dimension of the input transform: T vectors `sd` floats apart to T vectors `st` apart. */
AOT_INLINE void aot_winograd_f32_in(float *t, ptrdiff_t st, const float *d, ptrdiff_t sd, int T) {
    const aot_vf d0 = aot_vload(d);
    aot_vf d1, d2, d3;
    if (T == 1) {
        aot_vstore(t, d0);
        return;
    }
    d1 = aot_vload(d + sd);
    d2 = aot_vload(d + 2 * sd);
    d3 = aot_vload(d + 3 * sd);
    if (T == 5) {
        aot_vstore(t, d0 - d2);
        aot_vstore(t + st, d1);
        aot_vstore(t + 2 * st, d2);
        aot_vstore(t + 3 * st, aot_vload(d + 4 * sd) - d2);
        aot_vstore(t + 4 * st, d3);
    } else if (T == 4) {
        aot_vstore(t, d0 - d2);
        aot_vstore(t + st, d1 + d2);
        aot_vstore(t + 2 * st, d2 - d1);
        aot_vstore(t + 3 * st, d1 - d3);
    } else if (T == 8) {
        const aot_vf d4 = aot_vload(d + 4 * sd), d5 = aot_vload(d + 5 * sd);
        const aot_vf d6 = aot_vload(d + 6 * sd), d7 = aot_vload(d + 7 * sd);
        const aot_vf e1 = d2 + d6 - d4 * 4.25F, o1 = d1 + d5 - d3 * 4.25F;
        const aot_vf e2 = d6 + d2 * 0.25F - d4 * 1.25F, o2 = (d1 - d3 * 5.0F) * 0.5F + d5 * 2.0F;
        const aot_vf e3 = d6 + d2 * 4.0F - d4 * 5.0F, o3 = (d5 - d3 * 5.0F) * 0.5F + d1 * 2.0F;
        aot_vstore(t, d0 - d6 + (d4 - d2) * 5.25F);
        aot_vstore(t + st, e1 + o1);
        aot_vstore(t + 2 * st, e1 - o1);
        aot_vstore(t + 3 * st, e2 + o2);
        aot_vstore(t + 4 * st, e2 - o2);
        aot_vstore(t + 5 * st, e3 + o3);
        aot_vstore(t + 6 * st, e3 - o3);
        aot_vstore(t + 7 * st, d7 - d1 + (d3 - d5) * 5.25F);
    } else {
        const aot_vf d4 = aot_vload(d + 4 * sd), d5 = aot_vload(d + 5 * sd);
        const aot_vf even1 = d4 - d2 * AOT_WINOGRAD_B2, odd1 = d3 - d1 * AOT_WINOGRAD_B2;
        const aot_vf even2 = d4 - d2 * AOT_WINOGRAD_A2, odd2 = d3 - d1 * AOT_WINOGRAD_A2;
        aot_vstore(t, even1 - d2 * AOT_WINOGRAD_A2 + d0 * (AOT_WINOGRAD_A2 * AOT_WINOGRAD_B2));
        aot_vstore(t + st, even1 + odd1 * AOT_WINOGRAD_A);
        aot_vstore(t + 2 * st, even1 - odd1 * AOT_WINOGRAD_A);
        aot_vstore(t + 3 * st, even2 + odd2 * AOT_WINOGRAD_B);
        aot_vstore(t + 4 * st, even2 - odd2 * AOT_WINOGRAD_B);
        aot_vstore(t + 5 * st, d5 - d3 * (AOT_WINOGRAD_A2 + AOT_WINOGRAD_B2) +
                                   d1 * (AOT_WINOGRAD_A2 * AOT_WINOGRAD_B2));
    }
}

/* One dimension of the output transform: T vectors `sm` floats apart (three sums if T is 5) to M
 * vectors `sy` apart. */
AOT_INLINE void aot_winograd_f32_out(float *y, ptrdiff_t sy, const float *m, ptrdiff_t sm, int T,
                                     int M) {
    const aot_vf m0 = aot_vload(m);
    aot_vf sum, diff, sum2, diff2, sum3, diff3, v;
    float a = 1.0F, b = 1.0F, c = 1.0F; /* the powers of the points */
    int k;
    if (T == 1) {
        aot_vstore(y, m0);
        return;
    }
    sum = aot_vload(m + sm);
    if (T == 5) {
        aot_vstore(y, m0 + sum);
        aot_vstore(y + sy, sum + aot_vload(m + 2 * sm));
        return;
    }
    diff = sum - aot_vload(m + 2 * sm);
    sum = sum + aot_vload(m + 2 * sm);
    sum2 = diff2 = sum3 = diff3 = aot_vzero();
    if (T > 4) {
        const aot_vf m3 = aot_vload(m + 3 * sm), m4 = aot_vload(m + 4 * sm);
        sum2 = m3 + m4;
        diff2 = m3 - m4;
    }
    if (T > 6) {
        const aot_vf m5 = aot_vload(m + 5 * sm), m6 = aot_vload(m + 6 * sm);
        sum3 = m5 + m6;
        diff3 = m5 - m6;
    }
    AOT_UNROLL(16) for (k = 0; k < M; ++k) {
        v = k % 2 == 0 ? sum : diff;
        if (T == 6) {
            const aot_vf other = k % 2 == 0 ? sum2 : diff2;
            v = v * a + (other * (b - 1.0F) + other);
            a *= AOT_WINOGRAD_A;
            b *= AOT_WINOGRAD_B;
        } else if (T == 8) {
            v = v + (k % 2 == 0 ? sum2 : diff2) * b + (k % 2 == 0 ? sum3 : diff3) * c;
            b *= 2.0F;
            c *= 0.5F;
        }
        if (k == 0) {
            v = v + m0;
        }
        if (k == M - 1) { /* the kernel has the sign of the last point of T = 4 */
            v = T == 4 ? v - aot_vload(m + (T - 1) * sm) : v + aot_vload(m + (T - 1) * sm);
        }
        aot_vstore(y + k * sy, v);
    }
}

/* One input tile of one channel block: image rows from iy, columns from ix; zero outside.
 * `x` is the plane's row 0, column 0; point i of the transform goes to v + i * step. */
AOT_INLINE void aot_winograd_f32_tile_in(float *v, ptrdiff_t step, const float *x,
                                         const aot_winograd_f32_blocked_params *p, int32_t iy,
                                         int32_t ix, int TH, int TW) {
    float d[8 * 8 * AOT_VLEN], t[8 * 8 * AOT_VLEN];
    const float *s = x + ((ptrdiff_t)iy * p->x_row + (ptrdiff_t)ix * AOT_VLEN);
    ptrdiff_t s_row = p->x_row;
    int32_t i, j;
    if (iy < 0 || ix < 0 || iy + TH > p->ih || ix + TW > p->iw) {
        for (i = 0; i < TH; ++i) {
            for (j = 0; j < TW; ++j) {
                const int in = iy + i >= 0 && iy + i < p->ih && ix + j >= 0 && ix + j < p->iw;
                aot_vstore(d + (i * TW + j) * AOT_VLEN,
                           in ? aot_vload(s + (i * s_row + j * AOT_VLEN)) : aot_vzero());
            }
        }
        s = d;
        s_row = TW * AOT_VLEN;
    }
    if (TW == 1) {
        aot_winograd_f32_in(v, step, s, s_row, TH);
        return;
    }
    if (TH > 1) {
        for (j = 0; j < TW; ++j) {
            aot_winograd_f32_in(t + j * AOT_VLEN, TW * AOT_VLEN, s + j * AOT_VLEN, s_row, TH);
        }
        s = t;
        s_row = TW * AOT_VLEN;
    }
    for (i = 0; i < TH; ++i) {
        aot_winograd_f32_in(v + i * TW * step, step, s + i * s_row, AOT_VLEN, TW);
    }
}

/* One output tile of one channel block: points at m + i * step; pixel (oy, ox) at y and r. */
AOT_INLINE void aot_winograd_f32_tile_out(float *y, const float *r, const float *m, ptrdiff_t step,
                                          const float *bias,
                                          const aot_winograd_f32_blocked_params *p, int32_t rows,
                                          int32_t cols, int T, int KH, int KW, int ACT) {
    float t[6 * 8 * AOT_VLEN], out[6 * 6 * AOT_VLEN];
    const int TH = KH > 1 ? T : 1, TW = KW > 1 ? T : 1, RW = TW == 5 ? 3 : TW;
    const int MH = AOT_WINOGRAD_M(TH, KH), MW = AOT_WINOGRAD_M(TW, KW);
    const aot_vf b = aot_vload(bias), lo = aot_vset1(p->alpha), hi = aot_vset1(p->beta);
    const ptrdiff_t y_row = (ptrdiff_t)p->ow * AOT_VLEN;
    int32_t i, j;
    for (j = 0; j < RW; ++j) {
        aot_winograd_f32_out(t + j * AOT_VLEN, RW * AOT_VLEN, m + j * step, RW * step, TH, MH);
    }
    for (i = 0; i < MH; ++i) {
        aot_winograd_f32_out(out + i * MW * AOT_VLEN, AOT_VLEN, t + i * RW * AOT_VLEN, AOT_VLEN, TW,
                             MW);
    }
    for (i = 0; i < rows; ++i) {
        for (j = 0; j < cols; ++j) {
            const ptrdiff_t at = i * y_row + j * AOT_VLEN;
            aot_vf v = aot_vload(out + (i * MW + j) * AOT_VLEN) + b;
            if (r != NULL) {
                v += aot_vload(r + at);
            }
            if (ACT != 0) {
                v = aot_conv_act_f32(v, p->act, p->alpha, p->beta);
            } else if (p->act == AOT_ACT_CLAMP) {
                v = aot_vclamp(v, lo, hi);
            }
            aot_vstore(y + at, v);
        }
    }
}

/* Transform the inputs of `count` tiles from tile `first` on into v[TH * TW][ic blocks][tiles][V].
 */
AOT_INLINE void aot_winograd_f32_inputs(float *v, const float *x,
                                        const aot_winograd_f32_blocked_params *p, int32_t across,
                                        int32_t first, int32_t count, int T, int KH, int KW) {
    const int TH = KH > 1 ? T : 1, TW = KW > 1 ? T : 1, S = T == 5 ? 2 : 1;
    const int MH = AOT_WINOGRAD_M(TH, KH), MW = AOT_WINOGRAD_M(TW, KW);
    const int32_t planes = (p->ic + AOT_VLEN - 1) / AOT_VLEN;
    const ptrdiff_t step = (ptrdiff_t)planes * p->tiles * AOT_VLEN;
    int32_t c, t;
    for (c = 0; c < planes; ++c) {
        const float *plane = x + c * p->x_plane;
        int32_t ty = first / across, tx = first % across;
        for (t = 0; t < count; ++t) {
            const int32_t iy = (p->y0 + ty * MH) * S - p->pt, ix = tx * MW * S - p->pl;
            aot_winograd_f32_tile_in(v + ((ptrdiff_t)c * p->tiles + t) * AOT_VLEN, step,
                                     plane - (ptrdiff_t)p->x_row0 * p->x_row, p, iy, ix, TH, TW);
            if (++tx == across) {
                tx = 0;
                ++ty;
            }
        }
    }
}

/* Transform `count` tiles of `o` channel blocks out of m[TH * TW][o][tiles][V]. */
AOT_INLINE void aot_winograd_f32_outputs(float *y, const float *r, const float *m,
                                         const float *bias,
                                         const aot_winograd_f32_blocked_params *p, int32_t across,
                                         int32_t first, int32_t count, int32_t o, int T, int KH,
                                         int KW, int ACT) {
    const int MH = AOT_WINOGRAD_M(KH > 1 ? T : 1, KH), MW = AOT_WINOGRAD_M(KW > 1 ? T : 1, KW);
    const ptrdiff_t step = (ptrdiff_t)o * p->tiles * AOT_VLEN;
    int32_t b, t;
    for (b = 0; b < o; ++b) {
        int32_t ty = first / across, tx = first % across;
        for (t = 0; t < count; ++t) {
            const int32_t oy = p->y0 + ty * MH, ox = tx * MW;
            const ptrdiff_t at =
                (ptrdiff_t)(b * p->y_plane) + ((ptrdiff_t)(oy - p->y_row0) * p->ow + ox) * AOT_VLEN;
            aot_winograd_f32_tile_out(y + at, r != NULL ? r + at : NULL,
                                      m + ((ptrdiff_t)b * p->tiles + t) * AOT_VLEN, step,
                                      bias + b * AOT_VLEN, p, p->y1 - oy < MH ? p->y1 - oy : MH,
                                      p->ow - ox < MW ? p->ow - ox : MW, T, KH, KW, ACT);
            if (++tx == across) {
                tx = 0;
                ++ty;
            }
        }
    }
}

/* The matrix products of one group of output channels, tiles by ic by o * V: one per point, or with
 * T = 5 one per sum of one, two or four points. */
AOT_INLINE void aot_winograd_f32_products(aot_tile_f32_job *j, float *m, const float *v,
                                          const float *w, const float *next,
                                          const aot_winograd_f32_blocked_params *p, int32_t count,
                                          int32_t o, int TH, int TW, int P, int O) {
    static const int32_t first[4] = {0, 2, 3, 5}; /* point of each sum of an axis with five */
    const int32_t planes = (p->ic + AOT_VLEN - 1) / AOT_VLEN;
    const ptrdiff_t point = (ptrdiff_t)planes * p->tiles * AOT_VLEN;
    const int RH = TH == 5 ? 3 : TH, RW = TW == 5 ? 3 : TW;
    int32_t sum, q, i;
    j->y_block = (ptrdiff_t)p->tiles * AOT_VLEN;
    for (sum = 0; sum < RH * RW; ++sum) {
        const int32_t a = sum / RW, b = sum % RW;
        const ptrdiff_t at = TH == 5 ? first[a] * TW + first[b] : sum;
        const float *after;
        ptrdiff_t panel, ahead = 0;
        if (TH == 5) {
            j->na = first[a + 1] - first[a];
            j->nb = first[b + 1] - first[b];
            j->xa = TW * point;
            j->xb = point;
        }
        panel = (ptrdiff_t)j->na * j->nb * p->ic * o * AOT_VLEN;
        after = sum + 1 < RH * RW ? w + panel : next;
        j->x = v + at * point;
        j->w = w;
        for (q = 0; q < count; q += j->n) {
            const int32_t n = count - q < P ? count - q : P;
            const int32_t size = aot_tile_f32_size(P, n);
            for (i = 0; i < size; ++i) {
                j->off[i] = (ptrdiff_t)(q + (i < n ? i : n - 1)) * AOT_VLEN;
            }
            j->edge = n == size ? AOT_TILE_CLOSE : 0;
            j->n = n;
            j->y = m + ((ptrdiff_t)sum * o * p->tiles + q) * AOT_VLEN;
            j->next = after != NULL && ahead < panel
                          ? (uintptr_t)after + (size_t)ahead * sizeof *after
                          : 0;
            ahead += (ptrdiff_t)j->na * j->nb * p->ic * 8;
            aot_tile_f32_run(j, o, P, O, 0);
        }
        w += panel;
    }
}

/* Instance: T the points per axis (4, 6 or 8; 5 for stride 2); KH, KW the window (1, or 3 to T - 1;
 * 3 and 3 for stride 2); P, O the tile family of the products (aot_tile_f32_run); ACT 0 if act is
 * NONE or CLAMP. */
AOT_INLINE void aot_winograd_f32_blocked(float *y, const float *x, const float *w,
                                         const float *bias, const float *r, void *scratch,
                                         const aot_winograd_f32_blocked_params *p, int T, int KH,
                                         int KW, int P, int O, int ACT) {
    static const float zeros[4 * AOT_VLEN] = {0.0F};
    const int TH = KH > 1 ? T : 1, TW = KW > 1 ? T : 1;
    const int MH = AOT_WINOGRAD_M(TH, KH), MW = AOT_WINOGRAD_M(TW, KW);
    const int32_t points = TH * TW;
    const int32_t vecs = (p->oc + AOT_VLEN - 1) / AOT_VLEN;
    const int32_t planes = (p->ic + AOT_VLEN - 1) / AOT_VLEN;
    const int32_t across = (p->ow + MW - 1) / MW;
    const int32_t total = (p->y1 - p->y0 + MH - 1) / MH * across;
    float *v = (float *)scratch;
    float *m = v + (ptrdiff_t)points * planes * p->tiles * AOT_VLEN;
    aot_tile_f32_job j;
    int32_t image, first, b, o;
    (void)memset(&j, 0, sizeof j);
    j.na = 1;
    j.nb = 1;
    j.kc = p->ic;
    j.run = AOT_WINOGRAD_RUN(T);
    j.kblk = AOT_VLEN == 1 ? p->ic : AOT_VLEN;
    j.xstep = (ptrdiff_t)p->tiles * AOT_VLEN;
    j.y_pixel = AOT_VLEN;
    j.bias = zeros;
    for (image = 0; image < p->n; ++image) {
        for (first = 0; first < total; first += p->tiles) {
            const int32_t count = total - first < p->tiles ? total - first : p->tiles;
            const float *panel = w;
            aot_winograd_f32_inputs(v, x + image * p->x_batch, p, across, first, count, T, KH, KW);
            for (b = 0; b < vecs; b += o) {
                const ptrdiff_t at = (ptrdiff_t)(image * p->y_batch + b * p->y_plane);
                const float *next;
                o = aot_tile_f32_group(b, vecs, O);
                next = panel + (ptrdiff_t)points * p->ic * o * AOT_VLEN;
                aot_winograd_f32_products(&j, m, v, panel, b + o < vecs ? next : NULL, p, count, o,
                                          TH, TW, P, O);
                aot_winograd_f32_outputs(y + at, r != NULL ? r + at : NULL, m, bias + b * AOT_VLEN,
                                         p, across, first, count, o, T, KH, KW, ACT);
                panel = next;
            }
        }
    }
}

#endif /* AOT_WINOGRAD_F32_BLOCKED_H */
