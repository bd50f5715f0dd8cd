/* SPDX-License-Identifier: MIT-0 */
/* Convolution of blocked tensors: any kernel, stride, dilation, padding, groups.
 *
 * V = AOT_VLEN. x [n][ceil(ic/V)][ih][iw][V], y [n][ceil(oc/V)][oh][ow][V] or, with YV = 1, plain
 * [n][oc][oh][ow], r as y.
 * Output channels go in groups of O vectors (the last ones 2 or 1); w holds one panel per group:
 * [kh][kw][kc][O * V], kc the input channels of every convolution group that the panel touches,
 * from a multiple of V on (zero weights where input and output channel are not connected; NaN and
 * infinities of other groups do not get through). bias [ceil(oc/V) * V], pad lanes zero.
 *
 * y = act(conv(x) + bias + r). Rows y0..y1-1 of the output are computed. x points at image row
 * x_row0, y and r at output row y_row0, so a caller may hold only a part of the image. Row by row
 * (aot_rows.h) the image is a window: one row of output, and groups are whole vectors of channels.
 * In place: y may be r. No scratch. Pad lanes of x are never read; those of y are unspecified.
 */
#ifndef AOT_CONV_F32_BLOCKED_H
#define AOT_CONV_F32_BLOCKED_H

#include "aot_conv_act_f32.h"
#include "aot_tile_f32.h"

typedef struct {
    int32_t n, ic, ih, iw, oc, oh, ow;
    int32_t kh, kw, sh, sw, dh, dw, pt, pl; /* pt, pl: rows above, columns left */
    int32_t groups;
    int32_t y0, y1, x_row0, y_row0;
    int32_t x_row;                              /* floats from image row to row */
    int64_t x_plane, x_batch, y_plane, y_batch; /* floats from channel block, image to the next */
    int32_t act;
    float alpha, beta;
} aot_conv_f32_blocked_params;

/* Input channels that output blocks b..b+o-1 read: first (a multiple of V) and count. */
AOT_INLINE int32_t aot_conv_f32_channels(const aot_conv_f32_blocked_params *p, int32_t b, int32_t o,
                                         int32_t *count) {
    const int32_t icg = p->ic / p->groups;
    const int32_t ocg = p->oc / p->groups;
    const int32_t end = (b + o) * AOT_VLEN < p->oc ? (b + o) * AOT_VLEN : p->oc;
    const int32_t first = b * AOT_VLEN / ocg * icg / AOT_VLEN * AOT_VLEN;
    *count = ((end - 1) / ocg + 1) * icg - first;
    return first;
}

/* Offsets of the `size` pixels of a tile from output pixel (oy, ox) on; `n` of them exist. Pixels
 * of the image are XV floats apart. */
AOT_INLINE void aot_conv_f32_pixels(aot_tile_f32_job *j, const aot_conv_f32_blocked_params *p,
                                    int32_t oy, int32_t ox, int32_t n, int32_t size, int XV) {
    const int32_t bottom = p->ih - (p->kh - 1) * p->dh;
    const int32_t right = p->iw - (p->kw - 1) * p->dw;
    int32_t iy = oy * p->sh - p->pt;
    int32_t ix = ox * p->sw - p->pl;
    int32_t i;
    j->edge = 0;
    if (ox + n <= p->ow) { /* in one row: the common case */
        const ptrdiff_t start = AOT_ROWS_APART ? 0 : (ptrdiff_t)(iy - p->x_row0) * p->x_row;
        j->edge = iy < 0 || iy >= bottom || ix < 0 || ix + (n - 1) * p->sw >= right;
        for (i = 0; i < size; ++i) {
            const int32_t col = ix + (i < n ? i : n - 1) * p->sw;
            j->off[i] = start + (ptrdiff_t)col * XV;
            j->row[i] = iy;
            j->col[i] = col;
        }
        if (j->edge == 0 && p->sw == 1 && n == size) {
            j->edge = AOT_TILE_CLOSE;
        }
        return;
    }
    for (i = 0; i < size; ++i) {
        j->off[i] = (ptrdiff_t)(iy - p->x_row0) * p->x_row + (ptrdiff_t)ix * XV;
        j->row[i] = iy;
        j->col[i] = ix;
        j->edge |= iy < 0 || iy >= bottom || ix < 0 || ix >= right;
        if (i < n - 1) {
            ix += p->sw;
            if (++ox == p->ow) {
                ox = 0;
                ix = -p->pl;
                iy += p->sh;
            }
        }
    }
}

/* The sum of output channel c at pixel (oy, ox) over the channels of its own group. w is the
 * panel's lane of c, whose input channels start at `first`; wide = o * V. x is image row x_row0,
 * channel 0. */
AOT_INLINE float aot_conv_f32_own(const aot_conv_f32_blocked_params *p, const float *x,
                                  const float *w, float bias, int32_t wide, int32_t c,
                                  int32_t first, int32_t kc, int32_t oy, int32_t ox) {
    const int32_t icg = p->ic / p->groups;
    const int32_t from = c / (p->oc / p->groups) * icg;
    float sum = bias;
    int32_t a, b, k;
    for (a = 0; a < p->kh; ++a) {
        const int32_t row = oy * p->sh - p->pt + a * p->dh;
        for (b = 0; b < p->kw; ++b) {
            const int32_t col = ox * p->sw - p->pl + b * p->dw;
            const float *tap = w + (ptrdiff_t)(a * p->kw + b) * kc * wide;
            if (row < 0 || row >= p->ih || col < 0 || col >= p->iw) {
                continue;
            }
            for (k = from; k < from + icg; ++k) {
                sum += x[k / AOT_VLEN * p->x_plane + (ptrdiff_t)(row - p->x_row0) * p->x_row +
                         (ptrdiff_t)col * AOT_VLEN + k % AOT_VLEN] *
                       tap[(ptrdiff_t)(k - first) * wide];
            }
        }
    }
    return sum;
}

/* A panel that touches several groups multiplies the channels of other groups by zero, which is NaN
 * if those are infinite or NaN: computes every NaN of the tile j->y again. x as in
 * aot_conv_f32_own, r the tile of what is added, [o][P][V], or NULL; c0 the first output channel, q
 * the first pixel. */
AOT_UNUSED AOT_NOINLINE static void aot_conv_f32_isolate(const aot_tile_f32_job *j,
                                                         const aot_conv_f32_blocked_params *p,
                                                         const float *x, const float *r, int32_t c0,
                                                         int32_t first, int32_t q, int32_t o,
                                                         int32_t P) {
    const int32_t wide = o * AOT_VLEN;
    const int32_t cols = p->oc - c0 < wide ? p->oc - c0 : wide;
    int32_t i, c;
    for (c = 0; c < cols; ++c) {
        const int32_t block = c / AOT_VLEN, lane = c % AOT_VLEN;
        for (i = 0; i < j->n; ++i) {
            float *y = j->y + block * j->y_block + (ptrdiff_t)i * AOT_VLEN + lane;
            if (*y != *y) {
                float v = aot_conv_f32_own(p, x, j->w + c, j->bias[c], wide, c0 + c, first, j->kc,
                                           (q + i) / p->ow, (q + i) % p->ow);
                v += r != NULL ? r[((ptrdiff_t)block * P + i) * AOT_VLEN + lane] : 0.0F;
                if (j->clamp != 0) {
                    v = v < j->lo ? j->lo : v;
                    v = v > j->hi ? j->hi : v;
                }
                *y = v;
            }
        }
    }
}

/* All pixels of one group of output blocks, from channel c0 on; x is the image. With RUNS 2, which
 * is for one group of channels, it has words of two bfloat16. */
AOT_INLINE void aot_conv_f32_group(aot_tile_f32_job *j, const aot_conv_f32_blocked_params *p,
                                   float *y, const float *x, const float *r, const float *next,
                                   int32_t o, int32_t c0, int32_t first, int P, int O, int YV,
                                   int ACT, int RUNS) {
    const int XV = RUNS == 2 ? AOT_VLEN / 2 : AOT_VLEN;
    float edge[AOT_TILE_EDGE], added[AOT_TILE_EDGE];
    const int spans = p->ic / p->groups % AOT_VLEN != 0 || p->oc / p->groups % AOT_VLEN != 0;
    const int mixed = p->groups > 1 && spans;
    const int32_t cols = p->oc - c0 < o * AOT_VLEN ? p->oc - c0 : o * AOT_VLEN;
    const int flat = p->kh == 1 && p->kw == 1 && p->sh == 1 && p->sw == 1 && p->pt == 0 &&
                     p->pl == 0 && p->iw == p->ow && p->oh <= p->ih && p->x_row == p->iw * XV;
    const int32_t taps = p->kh * p->kw * j->kc;
    const int32_t end = p->y1 * p->ow;
    const int32_t base = p->y_row0 * p->ow;
    int32_t q = p->y0 * p->ow;
    int32_t oy = p->y0, ox = 0;
    ptrdiff_t ahead = 0;
    while (q < end) {
        const int32_t left = end - q;
        const int32_t n = left < P ? left : P;
        const int32_t size = aot_tile_f32_size(P, n);
        const ptrdiff_t at = (ptrdiff_t)(q - base) * YV;
        j->n = n;
        if (flat != 0) {
            const ptrdiff_t x0 = ((ptrdiff_t)q - (ptrdiff_t)p->x_row0 * p->ow) * XV;
            const int32_t count = AOT_TILE_WAYS && n == size && size >= 6 ? 1 : size;
            int32_t i;
            for (i = 0; i < count; ++i) { /* whole tiles of pixels that follow need the first */
                j->off[i] = x0 + (ptrdiff_t)(i < n ? i : n - 1) * XV;
            }
            j->edge = n == size ? AOT_TILE_CLOSE : 0;
        } else {
            aot_conv_f32_pixels(j, p, oy, ox, n, size, XV);
            ox += n;
            while (ox >= p->ow) {
                ox -= p->ow;
                ++oy;
            }
        }
        j->y = YV == AOT_VLEN ? y + at : edge;
        j->r = r == NULL ? NULL : YV == AOT_VLEN ? r + at : edge;
        if (YV != AOT_VLEN && r != NULL) {
            aot_tile_f32_gather(edge, r + at, (ptrdiff_t)p->y_plane, n, cols, P);
        }
        if (mixed && r != NULL) { /* r may be y */
            int32_t i;
            for (i = 0; i < o * n; ++i) {
                const ptrdiff_t from = i / n * j->y_block + (ptrdiff_t)(i % n) * AOT_VLEN;
                aot_vstore(added + (ptrdiff_t)(i / n * P + i % n) * AOT_VLEN,
                           aot_vload(j->r + from));
            }
        }
        j->next = next != NULL && ahead < (ptrdiff_t)taps * o * AOT_VLEN
                      ? (uintptr_t)next + (size_t)ahead * sizeof *next
                      : 0;
        ahead += (ptrdiff_t)taps * 8;
        aot_tile_f32_run(j, o, P, O, RUNS);
        if (mixed != 0) {
            aot_conv_f32_isolate(j, p, x, r != NULL ? added : NULL, c0, first, q, o, P);
        }
        if (ACT != 0) {
            aot_conv_act_f32_tile(j->y, n, AOT_VLEN, o, j->y_block, p->act, p->alpha, p->beta);
        }
        if (YV != AOT_VLEN) {
            aot_tile_f32_scatter(y + at, (ptrdiff_t)p->y_plane, edge, n, cols, P);
        }
        q += n;
    }
}

/* The part of a job that is the same for all images and groups of output blocks. */
AOT_INLINE void aot_conv_f32_job(aot_tile_f32_job *j, const aot_conv_f32_blocked_params *p, int XV,
                                 int YV, int P) {
    (void)memset(j, 0, sizeof *j);
    j->rows = p->ih;
    j->cols = p->iw;
    j->da = p->dh;
    j->db = p->dw;
    j->na = p->kh;
    j->nb = p->kw;
    j->run = AOT_TILE_RUN;
    j->xa = (ptrdiff_t)p->dh * p->x_row;
    j->xb = (ptrdiff_t)p->dw * XV;
    j->xstep = (ptrdiff_t)p->x_plane;
    j->y_pixel = AOT_VLEN;
    j->y_block = YV == AOT_VLEN ? (ptrdiff_t)p->y_plane : P * AOT_VLEN;
    j->clamp = p->act == AOT_ACT_CLAMP;
    j->lo = p->alpha;
    j->hi = p->beta;
}

/* Instance: P, O the tile family (aot_tile_f32_run); YV = V for a blocked y, 1 for a plain one;
 * ACT 0 if act is NONE or CLAMP. */
AOT_INLINE void aot_conv_f32_blocked(float *y, const float *x, const float *w, const float *bias,
                                     const float *r, const aot_conv_f32_blocked_params *p, int P,
                                     int O, int YV, int ACT) {
    const int32_t vecs = (p->oc + AOT_VLEN - 1) / AOT_VLEN;
    aot_tile_f32_job j;
    int32_t image, b, o;
    aot_conv_f32_job(&j, p, AOT_VLEN, YV, P);
    for (image = 0; image < p->n; ++image) {
        const float *panel = w;
#if AOT_ROWS_APART
        const float *xi = p->ih > 0 ? AOT_AT_F32(x, 0, 0, 0) : aot_tile_f32_zeros;
        j.at = x;
        j.above = p->pt;
#else
        const float *xi = x + image * p->x_batch;
#endif
        for (b = 0; b < vecs; b += o) {
            const ptrdiff_t at = (ptrdiff_t)(image * p->y_batch + b * p->y_plane * (AOT_VLEN / YV));
            int32_t first;
            ptrdiff_t size;
            o = aot_tile_f32_group(b, vecs, O);
            first = aot_conv_f32_channels(p, b, o, &j.kc);
            size = (ptrdiff_t)p->kh * p->kw * j.kc * o * AOT_VLEN;
            j.kblk = AOT_VLEN > 1 ? AOT_VLEN : AOT_TILE_CUTS && j.kc > j.run ? j.run : j.kc;
            j.x = xi + first / AOT_VLEN * p->x_plane;
            j.w = panel;
            j.bias = bias + b * AOT_VLEN;
            aot_conv_f32_group(&j, p, y + at, xi, r != NULL ? r + at : NULL,
                               b + o < vecs ? panel + size : NULL, o, b * AOT_VLEN, first, P, O, YV,
                               ACT, 0);
            panel += size;
        }
    }
}

#endif /* AOT_CONV_F32_BLOCKED_H */
