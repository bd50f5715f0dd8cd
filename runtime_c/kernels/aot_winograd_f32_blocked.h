/* SPDX-License-Identifier: MIT-0 */
/* 3x3 convolution of blocked tensors by Winograd's F(M,3), M = 2, 4 or 6: stride 1, no dilation,
 * one group. (M+2)^2 products per M*M outputs instead of 9 M*M.
 *
 * The points are 0, infinity and 1, -1 (M = 2), A, -A, B, -B (M = 4: they err half as much as 1,
 * -1, 2, -2, and their powers are exact), 1, -1, 2, -2, 1/2, -1/2 (M = 6). AOT_WINOGRAD_RUN
 * channels are summed up at a time: F(2,3) then errs as much as the direct kernel, F(4,3) three
 * times, F(6,3) thirteen times as much.
 *
 * V = AOT_VLEN, T = M + 2. x, y, r, bias as in aot_conv_f32_blocked.h; w one panel per group of O
 * vectors of output channels: [T*T][ic][O * V], the transformed weights.
 * Tiles are taken `tiles` at a time: inputs transformed, T*T small matrix products on the register
 * tile of aot_tile_f32.h, outputs transformed with bias, r and activation.
 * Scratch, in floats: T*T * tiles * V * (ceil(ic/V) + O).
 * Rows y0..y1-1 of the output are computed; x points at image row x_row0, y and r at output row
 * y_row0; tiles begin at y0, so ranges from multiples of M give the bits of the whole, and read the
 * image rows of whole tiles. In place: y may be r.
 */
#ifndef AOT_WINOGRAD_F32_BLOCKED_H
#define AOT_WINOGRAD_F32_BLOCKED_H

#include "aot_conv_act_f32.h"
#include "aot_tile_f32.h"

/* The points A and B of F(4,3), which aot/ops/conv_pack.py has, too. */
#define AOT_WINOGRAD_A 0.625F
#define AOT_WINOGRAD_B 1.5F
#define AOT_WINOGRAD_A2 (AOT_WINOGRAD_A * AOT_WINOGRAD_A)
#define AOT_WINOGRAD_B2 (AOT_WINOGRAD_B * AOT_WINOGRAD_B)
#define AOT_WINOGRAD_RUN 32

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

/* One dimension of the input transform: T vectors `sd` floats apart to T vectors `st` apart. */
AOT_INLINE void aot_winograd_f32_in(float *t, ptrdiff_t st, const float *d, ptrdiff_t sd, int M) {
    const aot_vf d0 = aot_vload(d), d1 = aot_vload(d + sd), d2 = aot_vload(d + 2 * sd);
    const aot_vf d3 = aot_vload(d + 3 * sd);
    if (M == 2) {
        aot_vstore(t, d0 - d2);
        aot_vstore(t + st, d1 + d2);
        aot_vstore(t + 2 * st, d2 - d1);
        aot_vstore(t + 3 * st, d1 - d3);
    } else if (M == 6) {
        const aot_vf d4 = aot_vload(d + 4 * sd), d5 = aot_vload(d + 5 * sd);
        const aot_vf d6 = aot_vload(d + 6 * sd), d7 = aot_vload(d + 7 * sd);
        const aot_vf e1 = d2 + d6 - d4 * 4.25F, o1 = d1 + d5 - d3 * 4.25F;
        const aot_vf e2 = d6 + d2 * 0.25F - d4 * 1.25F, o2 = d1 * 0.5F - d3 * 2.5F + d5 * 2.0F;
        const aot_vf e3 = d6 + d2 * 4.0F - d4 * 5.0F, o3 = d1 * 2.0F - d3 * 2.5F + d5 * 0.5F;
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

/* One dimension of the output transform: T vectors `sm` apart to M vectors `sy` apart. */
AOT_INLINE void aot_winograd_f32_out(float *y, ptrdiff_t sy, const float *m, ptrdiff_t sm, int M) {
    const aot_vf m0 = aot_vload(m), m1 = aot_vload(m + sm), m2 = aot_vload(m + 2 * sm);
    const aot_vf m3 = aot_vload(m + 3 * sm);
    const aot_vf sum = m1 + m2, diff = m1 - m2;
    if (M == 2) {
        aot_vstore(y, m0 + sum);
        aot_vstore(y + sy, diff - m3);
    } else if (M == 6) {
        const aot_vf m4 = aot_vload(m + 4 * sm), m5 = aot_vload(m + 5 * sm);
        const aot_vf m6 = aot_vload(m + 6 * sm), m7 = aot_vload(m + 7 * sm);
        const aot_vf sum2 = m3 + m4, diff2 = m3 - m4, sum3 = m5 + m6, diff3 = m5 - m6;
        aot_vstore(y, m0 + sum + sum2 + sum3);
        aot_vstore(y + sy, diff + diff2 * 2.0F + diff3 * 0.5F);
        aot_vstore(y + 2 * sy, sum + sum2 * 4.0F + sum3 * 0.25F);
        aot_vstore(y + 3 * sy, diff + diff2 * 8.0F + diff3 * 0.125F);
        aot_vstore(y + 4 * sy, sum + sum2 * 16.0F + sum3 * 0.0625F);
        aot_vstore(y + 5 * sy, diff + diff2 * 32.0F + diff3 * 0.03125F + m7);
    } else {
        const aot_vf m4 = aot_vload(m + 4 * sm), m5 = aot_vload(m + 5 * sm);
        const aot_vf sum2 = m3 + m4, diff2 = m3 - m4;
        aot_vstore(y, m0 + sum + sum2);
        aot_vstore(y + sy, diff * AOT_WINOGRAD_A + diff2 * AOT_WINOGRAD_B);
        aot_vstore(y + 2 * sy, sum * AOT_WINOGRAD_A2 + sum2 * AOT_WINOGRAD_B2);
        aot_vstore(y + 3 * sy, m5 + diff * (AOT_WINOGRAD_A2 * AOT_WINOGRAD_A) +
                                   diff2 * (AOT_WINOGRAD_B2 * AOT_WINOGRAD_B));
    }
}

/* One input tile of one channel block: image rows from iy, columns from ix; zero outside.
 * `x` is the plane's row 0, column 0; point i of the transform goes to v + i * step. */
AOT_INLINE void aot_winograd_f32_tile_in(float *v, ptrdiff_t step, const float *x,
                                         const aot_winograd_f32_blocked_params *p, int32_t iy,
                                         int32_t ix, int M) {
    float d[8 * 8 * AOT_VLEN], t[8 * 8 * AOT_VLEN];
    const int T = M + 2;
    const float *s = x + ((ptrdiff_t)iy * p->x_row + (ptrdiff_t)ix * AOT_VLEN);
    ptrdiff_t s_row = p->x_row;
    int32_t i, j;
    if (iy < 0 || ix < 0 || iy + T > p->ih || ix + T > p->iw) {
        for (i = 0; i < T; ++i) {
            for (j = 0; j < T; ++j) {
                const int in = iy + i >= 0 && iy + i < p->ih && ix + j >= 0 && ix + j < p->iw;
                aot_vstore(d + (i * T + j) * AOT_VLEN,
                           in ? aot_vload(s + (i * s_row + j * AOT_VLEN)) : aot_vzero());
            }
        }
        s = d;
        s_row = T * AOT_VLEN;
    }
    for (j = 0; j < T; ++j) {
        aot_winograd_f32_in(t + j * AOT_VLEN, T * AOT_VLEN, s + j * AOT_VLEN, s_row, M);
    }
    for (i = 0; i < T; ++i) {
        aot_winograd_f32_in(v + i * T * step, step, t + i * T * AOT_VLEN, AOT_VLEN, M);
    }
}

/* One output tile of one channel block: points at m + i * step; pixel (oy, ox) at y and r. */
AOT_INLINE void aot_winograd_f32_tile_out(float *y, const float *r, const float *m, ptrdiff_t step,
                                          const float *bias,
                                          const aot_winograd_f32_blocked_params *p, int32_t rows,
                                          int32_t cols, int M, int ACT) {
    float t[6 * 8 * AOT_VLEN], out[6 * 6 * AOT_VLEN];
    const int T = M + 2;
    const aot_vf b = aot_vload(bias), lo = aot_vset1(p->alpha), hi = aot_vset1(p->beta);
    const ptrdiff_t y_row = (ptrdiff_t)p->ow * AOT_VLEN;
    int32_t i, j;
    for (j = 0; j < T; ++j) {
        aot_winograd_f32_out(t + j * AOT_VLEN, T * AOT_VLEN, m + j * step, T * step, M);
    }
    for (i = 0; i < M; ++i) {
        aot_winograd_f32_out(out + i * M * AOT_VLEN, AOT_VLEN, t + i * T * AOT_VLEN, AOT_VLEN, M);
    }
    for (i = 0; i < rows; ++i) {
        for (j = 0; j < cols; ++j) {
            const ptrdiff_t at = i * y_row + j * AOT_VLEN;
            aot_vf v = aot_vload(out + (i * M + j) * AOT_VLEN) + b;
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

/* Transform the inputs of `count` tiles from tile `first` on into v[T*T][ic blocks][tiles][V]. */
AOT_INLINE void aot_winograd_f32_inputs(float *v, const float *x,
                                        const aot_winograd_f32_blocked_params *p, int32_t across,
                                        int32_t first, int32_t count, int M) {
    const int32_t planes = (p->ic + AOT_VLEN - 1) / AOT_VLEN;
    const ptrdiff_t step = (ptrdiff_t)planes * p->tiles * AOT_VLEN;
    int32_t c, t;
    for (c = 0; c < planes; ++c) {
        const float *plane = x + c * p->x_plane;
        int32_t ty = first / across, tx = first % across;
        for (t = 0; t < count; ++t) {
            const int32_t iy = p->y0 + ty * M - p->pt, ix = tx * M - p->pl;
            aot_winograd_f32_tile_in(v + ((ptrdiff_t)c * p->tiles + t) * AOT_VLEN, step,
                                     plane - (ptrdiff_t)p->x_row0 * p->x_row, p, iy, ix, M);
            if (++tx == across) {
                tx = 0;
                ++ty;
            }
        }
    }
}

/* Transform `count` tiles of `o` channel blocks out of m[T*T][o][tiles][V]. */
AOT_INLINE void aot_winograd_f32_outputs(float *y, const float *r, const float *m,
                                         const float *bias,
                                         const aot_winograd_f32_blocked_params *p, int32_t across,
                                         int32_t first, int32_t count, int32_t o, int M, int ACT) {
    const ptrdiff_t step = (ptrdiff_t)o * p->tiles * AOT_VLEN;
    int32_t b, t;
    for (b = 0; b < o; ++b) {
        int32_t ty = first / across, tx = first % across;
        for (t = 0; t < count; ++t) {
            const int32_t oy = p->y0 + ty * M, ox = tx * M;
            const ptrdiff_t at =
                (ptrdiff_t)(b * p->y_plane) + ((ptrdiff_t)(oy - p->y_row0) * p->ow + ox) * AOT_VLEN;
            aot_winograd_f32_tile_out(y + at, r != NULL ? r + at : NULL,
                                      m + ((ptrdiff_t)b * p->tiles + t) * AOT_VLEN, step,
                                      bias + b * AOT_VLEN, p, p->y1 - oy < M ? p->y1 - oy : M,
                                      p->ow - ox < M ? p->ow - ox : M, M, ACT);
            if (++tx == across) {
                tx = 0;
                ++ty;
            }
        }
    }
}

/* The T*T matrix products of one group of output channels: tiles by ic by o * V. */
AOT_INLINE void aot_winograd_f32_products(aot_tile_f32_job *j, float *m, const float *v,
                                          const float *w, const float *next,
                                          const aot_winograd_f32_blocked_params *p, int32_t count,
                                          int32_t o, int M, int P, int O) {
    const int32_t planes = (p->ic + AOT_VLEN - 1) / AOT_VLEN;
    const ptrdiff_t panel = (ptrdiff_t)p->ic * o * AOT_VLEN;
    const int T = M + 2;
    int32_t point, q, i;
    j->y_block = (ptrdiff_t)p->tiles * AOT_VLEN;
    for (point = 0; point < T * T; ++point, w += panel) {
        const float *after = point + 1 < T * T ? w + panel : next;
        ptrdiff_t ahead = 0;
        j->x = v + (ptrdiff_t)point * planes * p->tiles * AOT_VLEN;
        j->w = w;
        for (q = 0; q < count; q += j->n) {
            const int32_t n = count - q < P ? count - q : P;
            const int32_t size = aot_tile_f32_size(P, n);
            for (i = 0; i < size; ++i) {
                j->off[i] = (ptrdiff_t)(q + (i < n ? i : n - 1)) * AOT_VLEN;
            }
            j->edge = n == size ? AOT_TILE_CLOSE : 0;
            j->n = n;
            j->y = m + ((ptrdiff_t)point * o * p->tiles + q) * AOT_VLEN;
            j->next = after != NULL && ahead < panel
                          ? (uintptr_t)after + (size_t)ahead * sizeof *after
                          : 0;
            ahead += (ptrdiff_t)p->ic * 8;
            aot_tile_f32_run(j, o, P, O, 0);
        }
    }
}

/* Instance: M the outputs of a tile per axis (2, 4 or 6); P, O the tile family of the products
 * (aot_tile_f32_run); ACT 0 if act is NONE or CLAMP. */
AOT_INLINE void aot_winograd_f32_blocked(float *y, const float *x, const float *w,
                                         const float *bias, const float *r, void *scratch,
                                         const aot_winograd_f32_blocked_params *p, int M, int P,
                                         int O, int ACT) {
    static const float zeros[4 * AOT_VLEN] = {0.0F};
    const int T = M + 2;
    const int32_t vecs = (p->oc + AOT_VLEN - 1) / AOT_VLEN;
    const int32_t planes = (p->ic + AOT_VLEN - 1) / AOT_VLEN;
    const int32_t across = (p->ow + M - 1) / M;
    const int32_t total = (p->y1 - p->y0 + M - 1) / M * across;
    float *v = (float *)scratch;
    float *m = v + (ptrdiff_t)T * T * planes * p->tiles * AOT_VLEN;
    aot_tile_f32_job j;
    int32_t image, first, b, o;
    (void)memset(&j, 0, sizeof j);
    j.na = 1;
    j.nb = 1;
    j.kc = p->ic;
    j.run = AOT_WINOGRAD_RUN;
    j.kblk = AOT_VLEN == 1 ? p->ic : AOT_VLEN;
    j.xstep = (ptrdiff_t)p->tiles * AOT_VLEN;
    j.y_pixel = AOT_VLEN;
    j.bias = zeros;
    for (image = 0; image < p->n; ++image) {
        for (first = 0; first < total; first += p->tiles) {
            const int32_t count = total - first < p->tiles ? total - first : p->tiles;
            const float *panel = w;
            aot_winograd_f32_inputs(v, x + image * p->x_batch, p, across, first, count, M);
            for (b = 0; b < vecs; b += o) {
                const ptrdiff_t at = (ptrdiff_t)(image * p->y_batch + b * p->y_plane);
                const float *next;
                o = aot_tile_f32_group(b, vecs, O);
                next = panel + (ptrdiff_t)T * T * p->ic * o * AOT_VLEN;
                aot_winograd_f32_products(&j, m, v, panel, b + o < vecs ? next : NULL, p, count, o,
                                          M, P, O);
                aot_winograd_f32_outputs(y + at, r != NULL ? r + at : NULL, m, bias + b * AOT_VLEN,
                                         p, across, first, count, o, M, ACT);
                panel = next;
            }
        }
    }
}

#endif /* AOT_WINOGRAD_F32_BLOCKED_H */
