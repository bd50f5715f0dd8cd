/* SPDX-License-Identifier: MIT-0 */
/* Convolution of int8 values by dot products, groups = 1: parameters in aot_qconv_s8_params.h,
 * weights as aot_qdot.h says; bias [C], C = channels rounded up to whole vectors.
 *
 * Rows of the image are copied to scratch with their halo, as many at a time as `STRIP` bytes hold
 * (at least those of one row of the output); a window's run is a whole row of it where dw is 1. Of
 * a 1x1 convolution only the pixels used are copied and the strip is one row of pixels.
 *
 * With WZ 1 the bias is followed by a number per channel that every weight of it lacks, and the
 * scratch by int32 [pixels of a strip], the sums of the windows, and what aot_qdot_totals needs.
 *
 * y must not overlap x.
 */
#ifndef AOT_QCONV_S8__DOT_H
#define AOT_QCONV_S8__DOT_H

#include "aot_qconv_epilogue.h"
#include "aot_qconv_s8_params.h"
#include "aot_qdot.h"
#include "aot_rows.h"

typedef aot_qconv_s8_params aot_qconv_s8__dot_params;

/* What becomes of sums: `r` are values that are added, or a table; `add` and `more` the parameters
 * of an addition of quantised values and of the other epilogues. `turned` is 128 where x is uint8
 * and stands for values 128 lower. With AOT_QDOT_BLOCKS a pixel has `pixel` channels and a block
 * `block` pixels. */
typedef struct {
    aot_qvec_out out;
    int8_t *y;
    int32_t turned, pixel;
    ptrdiff_t block;
    const void *r;
    const aot_qbinary_params *add;
    const aot_qconv_epilogue_params *more;
} aot_qdot_result;

#define AOT_QDOT_BLOCKS (-2) /* int32 sums with channels in blocks of V */

/* y = values a + values b: aot_qadd_s8_row, whole vectors first. */
AOT_INLINE void aot_qdot_add(int8_t *y, const int8_t *a, const int8_t *b, int32_t n,
                             const aot_qbinary_params *p, int ADD) {
    int32_t i = 0;
    for (; ADD < 2 && i + AOT_VLEN <= n; i += AOT_VLEN) {
        aot_vi v = aot_qvec_widen(a + i) * p->a_mult + aot_qvec_widen(b + i) * p->b_mult;
        v += p->offset;
        v += ADD == 1 ? (v >> p->y_shift) & 1 : v - v;
        aot_qvec_narrow(y + i, aot_qvec_within(v >> p->y_shift, p->lo, p->hi));
    }
    aot_qadd_s8_row(y + i, a + i, b + i, n - i, p, 1, 1, ADD);
}

/* The sums of channels c..c+n-1 (n <= 4 * V) of the pixel whose first value is `at` values behind y
 * become values, as aot_qconv_epilogue.h says, or with AOT_QDOT_NO_EPILOGUE by RQ and PC. With WZ
 * their weights lack `lacking`, and `total` is the sum of the pixel's window. */
AOT_INLINE void aot_qdot_finish(const aot_qdot_result *z, int32_t *sums, const int32_t *lacking,
                                int32_t total, ptrdiff_t at, int32_t c, int32_t n, int EPILOGUE,
                                int RQ, int PC, int WZ) {
    const int plain = EPILOGUE == AOT_QDOT_NO_EPILOGUE;
    int8_t values[4 * AOT_VLEN];
    int8_t *const y = z->y + (at + c) * AOT_REQUANT_SIZE(plain ? RQ : 0);
    int32_t j;
    if (EPILOGUE == AOT_QDOT_BLOCKS) {
        for (j = 0; j < n; j += AOT_VLEN) {
            const aot_vi of = aot_viload(sums + j);
            aot_vistore((int32_t *)(void *)z->y + (c + j) * z->block + at / z->pixel * AOT_VLEN,
                        WZ != 0 ? of + aot_viload(lacking + j) * total : of);
        }
        return;
    }
    if (EPILOGUE >= AOT_EPILOGUE_SUM) {
        for (j = 0; WZ != 0 && j < n; j += AOT_VLEN) {
            aot_vistore(sums + j, aot_viload(sums + j) + aot_viload(lacking + j) * total);
        }
        aot_qconv_epilogue_values(y, sums, aot_qconv_epilogue_at(z->r, at + c, EPILOGUE),
                                  z->out.mult + c, z->out.shift + c, n, z->more, EPILOGUE);
        return;
    }
    for (j = 0; j < n; j += AOT_VLEN) {
        const int32_t left = n - j;
        const aot_vi of = aot_viload(sums + j);
        aot_qvec_store((plain ? y : values) + j * AOT_REQUANT_SIZE(RQ),
                       WZ != 0 ? of + aot_viload(lacking + j) * total : of, &z->out, c + j,
                       left < AOT_VLEN ? (int)left : AOT_VLEN, RQ, PC);
    }
    if (!plain) {
        aot_qdot_add(y, values, (const int8_t *)z->r + at + c, n, z->add, EPILOGUE);
    }
}

/* Of a strip: bytes of a row and of a pixel of the copy, pixels in a row of the output, windows. */
typedef struct {
    int32_t rows, width, pixels;
    ptrdiff_t pitch, step, down; /* bytes to the next pixel and row of the output */
    aot_qdot_window window;
    int32_t flat; /* 1x1: one row of pixels */
} aot_qdot_strip;

AOT_INLINE int32_t aot_qdot_span(const aot_qconv_s8_params *p) {
    return (p->kh - 1) * p->dh + 1;
}

/* Sizes for strips of at most `bytes` bytes. */
AOT_INLINE void aot_qdot_sizes(aot_qdot_strip *s, const aot_qconv_s8_params *p, int32_t bytes) {
    const int32_t rows = p->y1 - p->y0;
    s->flat = p->kh == 1 && p->kw == 1 && p->pt == 0 && p->pl == 0 && (p->oh - 1) * p->sh < p->ih &&
              (p->ow - 1) * p->sw < p->iw;
    if (s->flat != 0) {
        const ptrdiff_t fit = bytes / ((ptrdiff_t)p->ow * p->ic);
        s->rows = fit < 1 ? 1 : fit < rows ? (int32_t)fit : rows;
        s->width = p->ow;
        s->pixels = p->ow;
        s->step = p->ic;
        s->pitch = (ptrdiff_t)p->ow * p->ic;
        s->down = s->pitch;
        s->window.cols = 1;
        s->window.four = (p->ic + 3) / 4;
        s->window.col = 0;
    } else {
        ptrdiff_t fit;
        s->width = (p->ow - 1) * p->sw + (p->kw - 1) * p->dw + 1;
        s->pitch = (ptrdiff_t)s->width * p->ic;
        fit = (bytes / s->pitch - aot_qdot_span(p)) / p->sh + 1;
        s->rows = fit < 1 ? 1 : fit < rows ? (int32_t)fit : rows;
        s->pixels = p->ow;
        s->step = (ptrdiff_t)p->sw * p->ic;
        s->down = s->pitch * p->sh;
        s->window.cols = p->dw == 1 ? 1 : p->kw;
        s->window.four = ((p->dw == 1 ? p->kw : 1) * p->ic + 3) / 4;
        s->window.col = (ptrdiff_t)p->dw * p->ic;
    }
    s->window.rows = p->kh;
    s->window.row = s->pitch * p->dh;
}

/* Copies what `rows` rows of the output, from `oy` on, read of x. */
AOT_INLINE void aot_qdot_fill(uint8_t *d, const int8_t *x, const aot_qconv_s8_params *p,
                              const aot_qdot_strip *s, int32_t oy, int32_t rows, int FLIP) {
    const int32_t iy = oy * p->sh - p->pt, pad = (uint8_t)p->x_zero ^ FLIP;
    int32_t i, j;
    if (s->flat != 0) {
        for (i = 0; i < rows; ++i) {
            const int32_t down = (oy + i) * p->sh - p->x_row0;
            const int8_t *from = AOT_AT(x, down, 0, x + (ptrdiff_t)down * p->iw * p->ic);
            if (p->sw == 1) {
                aot_qdot_copy(d, from, s->pitch, FLIP);
                d += s->pitch;
                continue;
            }
            for (j = 0; j < p->ow; ++j, from += p->sw * p->ic, d += p->ic) {
                aot_qdot_copy(d, from, p->ic, FLIP);
            }
        }
        return;
    }
    for (i = 0; i < (rows - 1) * p->sh + aot_qdot_span(p); ++i, d += s->pitch) {
        const int32_t row = iy + i, end = s->width - p->pl;
        const int32_t last = end < p->iw ? end : p->iw;
        ptrdiff_t left = (ptrdiff_t)p->pl * p->ic, inner = (ptrdiff_t)last * p->ic;
        const ptrdiff_t skipped = left < 0 ? -left : 0; /* the row begins within the image */
        if (row < 0 || row >= p->ih || last <= 0 || last + p->pl <= 0) {
            (void)memset(d, pad, (size_t)s->pitch);
            continue;
        }
        if (left > 0) {
            (void)memset(d, pad, (size_t)left);
        }
        inner -= skipped;
        aot_qdot_copy(d + (left > 0 ? left : 0),
                      AOT_AT(x, row - p->x_row0, skipped,
                             x + (ptrdiff_t)(row - p->x_row0) * p->iw * p->ic + skipped),
                      inner, FLIP);
        inner += left > 0 ? left : 0;
        (void)memset(d + inner, pad, (size_t)(s->pitch - inner));
    }
}

#define AOT_QDOT_BEYOND 16 /* sums that vectors may store behind the last one */

/* n sums (and those up to the next whole vector) of `taps` values of x, `apart` from each other. */
AOT_INLINE void aot_qdot_runs(int32_t *y, const int32_t *x, int32_t n, int32_t step, int32_t taps,
                              int32_t apart) {
    int32_t i, k;
    for (i = 0; step == 1 && i < n; i += AOT_VLEN) {
        aot_vi v = aot_viload(x + i);
        for (k = 1; k < taps; ++k) {
            v += aot_viload(x + i + k * apart);
        }
        aot_vistore(y + i, v);
    }
    for (i = 0; step > 1 && i < n; ++i) {
        int32_t sum = 0;
        for (k = 0; k < taps; ++k) {
            sum += x[i * step + k * apart];
        }
        y[i] = sum;
    }
}

/* The sum of every window of a strip, of which each pixel is summed once: behind the sums is room
 * for those of the pixels of two lines of the copy and of the runs of a window's lines. Pixels are
 * summed a line ahead, for what was just stored is slow to read at other places. A function of its
 * own: gcc takes the vectors of ones out of the loop over strips, and the tile would then run out
 * of registers. */
AOT_UNUSED AOT_NOINLINE static void aot_qdot_totals(int32_t *totals, const uint8_t *x,
                                                    const aot_qconv_s8_params *p,
                                                    const aot_qdot_strip *s, int32_t rows,
                                                    int FLIP) {
    const int32_t span = aot_qdot_span(p), last = (rows - 1) * p->sh + span, n = s->pixels;
    const int32_t wide = s->width + AOT_QDOT_BEYOND, run = n + AOT_QDOT_BEYOND;
    int32_t *const pixels = totals + (ptrdiff_t)s->rows * n + AOT_QDOT_BEYOND;
    int32_t *const runs = pixels + 2 * (ptrdiff_t)wide;
    int32_t row, i, k, seen = 0, made = 0;
    if (s->flat != 0) {
        aot_qdot_pixels(totals, x, rows * n, s->step, p->ic, FLIP);
        return;
    }
    (void)memset(pixels, 0, (2 * (size_t)wide + (size_t)span * (size_t)run) * sizeof *pixels);
    for (row = 0; row < rows; ++row, totals += n) {
        const int32_t first = row * p->sh;
        for (made = made < first ? first : made; made < first + span; ++made) {
            for (seen = seen < made ? made : seen; seen < made + 2 && seen < last; ++seen) {
                aot_qdot_pixels(pixels + (ptrdiff_t)(seen % 2) * wide, x + seen * s->pitch,
                                s->width, p->ic, p->ic, FLIP);
            }
            aot_qdot_runs(runs + (ptrdiff_t)(made % span) * run,
                          pixels + (ptrdiff_t)(made % 2) * wide, n, p->sw, p->kw, p->dw);
        }
        for (i = 0; i < n; i += AOT_VLEN) {
            int32_t line = first % span;
            aot_vi v = aot_viload(runs + (ptrdiff_t)line * run + i);
            for (k = 1; k < p->kh; ++k) {
                line += p->dh - (line + p->dh < span ? 0 : span);
                v += aot_viload(runs + (ptrdiff_t)line * run + i);
            }
            aot_vistore(totals + i, v);
        }
    }
}

/* A pixel of a strip, counted from its first segment. */
typedef struct {
    const uint8_t *x;
    int32_t first, n; /* number of the pixel in the strip, pixels of the segment */
} aot_qdot_segment;

AOT_INLINE aot_qdot_segment aot_qdot_next(int32_t *row, int32_t *col, const uint8_t *x,
                                          const aot_qdot_strip *s, int32_t pixels, int L) {
    aot_qdot_segment g;
    const int32_t left = pixels - *col;
    g.x = x + *row * s->down + *col * s->step;
    g.first = *row * pixels + *col;
    g.n = left < L ? left : L;
    *col += L;
    if (*col >= pixels) {
        *col = 0;
        ++*row;
    }
    return g;
}

/* Bytes of a strip's copy, a multiple of 64. */
AOT_INLINE ptrdiff_t aot_qdot_bytes(const aot_qconv_s8_params *p, const aot_qdot_strip *s) {
    const int32_t rows = s->flat != 0 ? s->rows : (s->rows - 1) * p->sh + aot_qdot_span(p);
    const ptrdiff_t beyond = AOT_QDOT_LENGTH * s->step + AOT_QDOT_SLACK;
    return (rows * s->pitch + beyond + 63) / 64 * 64;
}

#if AOT_QDOT_IS_DIRECT(0, 0, AOT_QDOT_FLIP)
/* The values of n (at most O * V) channels, c and on, of the segments g: `wc` is their panel. A
 * tile that lacks pixels or channels is made aside. */
AOT_INLINE void aot_qdot_segments(const aot_qdot_result *z, const aot_qdot_segment *g,
                                  const int32_t *totals, const int8_t *wc, const int32_t *bias,
                                  int32_t padded, int32_t lacks, const aot_qdot_strip *s,
                                  int32_t oc, ptrdiff_t at, int32_t c, int32_t n, int EPILOGUE,
                                  int PC, int L, int S, int O, int WZ) {
    enum { MOST = 2 * AOT_QDOT_LENGTH * 2 * AOT_VLEN };
    const int wide = (O > 2 ? 4 : 2) * AOT_VLEN;
    const int adds = EPILOGUE != AOT_QDOT_NO_EPILOGUE;
    const int whole = n == O * AOT_VLEN && g[0].n == L && (S == 1 || g[1].n == L);
    int8_t made[MOST], more[MOST];
    int32_t sums[2 * AOT_QDOT_LENGTH], mult[4 * AOT_VLEN];
    aot_qdot_direct t;
    int k, i;
    t.step = whole ? oc : wide;
    t.mult = z->out.mult + (PC != 0 ? c : 0);
    t.lacking = bias + padded + c;
    t.lacks = lacks;
    t.zero = adds ? 0 : z->out.zero;
    t.least = z->out.lo;
    t.most = z->out.hi;
    if (adds) {
        t.lo = z->out.lo - z->out.zero;
        t.hi = z->out.hi - z->out.zero;
        t.a_mult = z->add->a_mult;
        t.b_mult = z->add->b_mult;
        t.offset = z->add->offset + z->out.zero * z->add->a_mult;
        t.y_shift = z->add->y_shift;
        t.least = z->add->lo;
        t.most = z->add->hi;
    }
    if (!whole) {
        (void)memset(more, 0, sizeof more);
        (void)memset(sums, 0, sizeof sums);
        (void)memset(mult, 0, sizeof mult);
        (void)memcpy(mult, t.mult, (size_t)(PC != 0 ? n : 1) * sizeof *mult);
        t.mult = mult;
    }
    for (k = 0; k < S; ++k) {
        const ptrdiff_t first = at + (ptrdiff_t)g[k].first * oc + c;
        t.y[k] = whole ? z->y + first : made + k * AOT_QDOT_LENGTH * wide;
        t.r[k] = !adds   ? z->y
                 : whole ? (const int8_t *)z->r + first
                         : more + k * AOT_QDOT_LENGTH * wide;
        t.totals[k] = whole ? totals + g[k].first : sums + k * AOT_QDOT_LENGTH;
        for (i = 0; !whole && i < g[k].n; ++i) {
            sums[k * AOT_QDOT_LENGTH + i] = WZ != 0 ? totals[g[k].first + i] : 0;
            if (adds) {
                (void)memcpy(more + (k * AOT_QDOT_LENGTH + i) * wide,
                             (const int8_t *)z->r + first + (ptrdiff_t)i * oc, (size_t)n);
            }
        }
    }
    aot_qdot_values(&t, g[0].x, g[1].x, s->step, &s->window, wc, bias + c, L, S, O, EPILOGUE, PC,
                    WZ);
    for (k = 0; !whole && k < S; ++k) {
        for (i = 0; i < g[k].n; ++i) {
            (void)memcpy(z->y + at + (ptrdiff_t)(g[k].first + i) * oc + c, t.y[k] + i * wide,
                         (size_t)n);
        }
    }
}
#endif

/* The products of the windows of `rows` rows of a strip, copied to `copy`, and what becomes of
 * them: `at` counts the values of the output before them, `totals` are the sums of the windows (WZ
 * 1). */
AOT_INLINE void aot_qdot_products(const aot_qdot_result *z, const uint8_t *copy,
                                  const int32_t *totals, const int8_t *w, const int32_t *bias,
                                  const aot_qdot_strip *s, int32_t rows, int32_t oc, ptrdiff_t at,
                                  int EPILOGUE, int RQ, int PC, int L, int S, int O, int FLIP,
                                  int WZ) {
    const int32_t padded = (oc + AOT_VLEN - 1) / AOT_VLEN * AOT_VLEN;
    const int32_t pixels = s->flat != 0 ? rows * s->pixels : s->pixels;
    const int32_t lines = s->flat != 0 ? 1 : rows;
    const ptrdiff_t panel =
        (ptrdiff_t)s->window.rows * s->window.cols * s->window.four * 4 * O * AOT_VLEN;
    int32_t c;
    for (c = 0; c < oc; c += O * AOT_VLEN) {
        const int32_t left = oc - c, n = left < O * AOT_VLEN ? left : O * AOT_VLEN;
        const int8_t *const wc = w + c / (O * AOT_VLEN) * panel;
        int32_t row = 0, col = 0, lacks = 0, j;
        for (j = 0; WZ != 0 && j < n; ++j) {
            lacks |= bias[padded + c + j];
        }
        while (row < lines) {
            int32_t sums[AOT_QDOT_TILE], i, k, v = O;
            aot_qdot_segment g[2];
            g[0] = aot_qdot_next(&row, &col, copy, s, pixels, L);
            if (S > 1 && row < lines) {
                g[1] = aot_qdot_next(&row, &col, copy, s, pixels, L);
            } else { /* member by member: a copy would wait for the three stores */
                g[1].x = g[0].x;
                g[1].first = g[0].first;
                g[1].n = 0;
            }
#if AOT_QDOT_IS_DIRECT(0, 0, AOT_QDOT_FLIP)
            if (AOT_QDOT_IS_DIRECT(EPILOGUE, RQ, FLIP)) {
                if (O == 1 || n > AOT_VLEN) {
                    aot_qdot_segments(z, g, totals, wc, bias, padded, lacks, s, oc, at, c, n,
                                      EPILOGUE, PC, L, S, O, WZ);
                } else {
                    aot_qdot_segments(z, g, totals, wc, bias, padded, lacks, s, oc, at, c, n,
                                      EPILOGUE, PC, L, S, 1, WZ);
                }
                continue;
            }
#endif
            if (O == 1 || n > AOT_VLEN) {
                aot_qdot_tile(sums, g[0].x, g[1].x, s->step, &s->window, wc, bias + c, L, S, O,
                              FLIP);
            } else {
                v = 1;
                aot_qdot_tile(sums, g[0].x, g[1].x, s->step, &s->window, wc, bias + c, L, S, 1,
                              FLIP);
            }
            for (k = 0; k < S; ++k) {
                for (i = 0; i < g[k].n; ++i) {
                    int32_t *const of = sums + (ptrdiff_t)(k * L + i) * v * AOT_VLEN;
                    const int32_t pixel = g[k].first + i;
                    aot_qdot_finish(z, of, bias + padded + c, WZ != 0 ? totals[pixel] : 0,
                                    at + (ptrdiff_t)pixel * oc, c, n, EPILOGUE, RQ, PC, WZ);
                }
            }
        }
    }
}

/* A convolution; the instance constants are those of aot_qconv_s8__dot, EPILOGUE that of
 * aot_qdot_finish. */
AOT_INLINE void aot_qdot_conv(const aot_qdot_result *z, const int8_t *x, const int8_t *w,
                              const int32_t *bias, void *scratch, const aot_qconv_s8_params *p,
                              int EPILOGUE, int RQ, int PC, int L, int S, int O, int FLIP, int WZ,
                              int STRIP) {
    uint8_t *const copy = (uint8_t *)scratch;
    int32_t *totals, image, oy, rows;
    ptrdiff_t at = 0;
    aot_qdot_strip s;
    aot_qdot_sizes(&s, p, STRIP);
    totals = (int32_t *)(void *)(copy + aot_qdot_bytes(p, &s));
    for (image = 0; image < p->n; ++image, x += (ptrdiff_t)p->ih * p->iw * p->ic) {
        for (oy = p->y0; oy < p->y1; oy += rows, at += (ptrdiff_t)rows * p->ow * p->oc) {
            rows = p->y1 - oy < s.rows ? p->y1 - oy : s.rows;
            aot_qdot_fill(copy, x, p, &s, oy, rows, FLIP ^ z->turned);
            if (WZ != 0) {
                aot_qdot_totals(totals, copy, p, &s, rows, FLIP);
            }
            aot_qdot_products(z, copy, totals, w, bias, &s, rows, p->oc, at, EPILOGUE, RQ, PC, L, S,
                              O, FLIP, WZ);
        }
        at += (ptrdiff_t)(p->oh - (p->y1 - p->y0)) * p->ow * p->oc;
    }
}

AOT_INLINE void aot_qdot_outcome(aot_qdot_result *z, int8_t *y, const int32_t *mult,
                                 const int8_t *shift, int32_t zero, int32_t lo, int32_t hi) {
    z->out.mult = mult;
    z->out.shift = shift;
    z->out.zero = zero;
    z->out.lo = lo;
    z->out.hi = hi;
    z->y = y;
    z->turned = 0;
    z->pixel = 1;
    z->block = 0;
    z->r = NULL;
    z->add = NULL;
    z->more = NULL;
}

/* Instance: RQ and PC as in aot_requant.h, with RQ 3 y stands for int32; L, S, O and FLIP as in
 * aot_qdot.h; WZ; STRIP. */
AOT_INLINE void aot_qconv_s8__dot(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                  const int32_t *mult, const int8_t *shift, void *scratch,
                                  const aot_qconv_s8_params *p, int RQ, int PC, int L, int S, int O,
                                  int FLIP, int WZ, int STRIP) {
    aot_qdot_result z;
    const ptrdiff_t skipped = (ptrdiff_t)(p->y0 - p->y_row0) * p->ow * p->oc;
    aot_qdot_outcome(&z, y + skipped * AOT_REQUANT_SIZE(RQ), mult, shift, p->y_zero, p->lo, p->hi);
    aot_qdot_conv(&z, x, w, bias, scratch, p, AOT_QDOT_NO_EPILOGUE, RQ, PC, L, S, O, FLIP, WZ,
                  STRIP);
}

#endif /* AOT_QCONV_S8__DOT_H */
