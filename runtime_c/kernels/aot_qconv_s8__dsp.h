/* SPDX-License-Identifier: MIT-0 */
/* Convolution of int8 quantised values for Cortex-M4, M7 and M33; groups = 1.
 *
 * x [n][ih][iw][ic], y [n][oh][ow][oc], see aot_qconv_s8_params.h. w: per four output channels the
 * words of aot_dsp_mac.h along the window, whose order of quantised values is [kh][kw][ic] padded
 * to a multiple of 8 or, for KIND 2, per row of the window and pair of input channels the three
 * columns. bias: one per output channel. Where oc is no multiple of 4, the last block is of the
 * last four channels again; oc >= 4.
 *
 * Two pixels are computed at a time, from their windows as int16 in scratch (bytes, K the padded
 * size of a window): KIND 0 6 K + 4, any window; KIND 1 4 K, a window of one pixel without padding
 * and strides, ic a multiple of 4; KIND 2 16/3 K/2, windows three columns wide at stride 1 along
 * the row, ic a multiple of 4. w, bias and scratch are aligned to 4 bytes. y must not overlap x.
 */
#ifndef AOT_QCONV_S8__DSP_H
#define AOT_QCONV_S8__DSP_H

#include "aot_dsp_pixels.h"
#include "aot_qconv_s8_params.h"

typedef aot_qconv_s8_params aot_qconv_s8__dsp_params;

/* Widens n quantised values (a multiple of 4) of two pixels: their words in turn. */
AOT_INLINE void aot_qconv_dsp_widen(uint32_t *d, const int8_t *x0, const int8_t *x1, int32_t n) {
    const int8_t *const end = x0 + n;
#if AOT_DSP
    uint32_t a, b, t, u;
    __asm__ volatile("1:\n"
                     "ldr %[a],[%[x0]],#4\n"
                     "ldr %[b],[%[x1]],#4\n"
                     "sxtb16 %[t],%[a]\n"
                     "sxtb16 %[u],%[b]\n"
                     "strd %[t],%[u],[%[d]],#8\n"
                     "sxtb16 %[a],%[a],ror #8\n"
                     "sxtb16 %[b],%[b],ror #8\n"
                     "strd %[a],%[b],[%[d]],#8\n"
                     "cmp %[x0],%[end]\n"
                     "bne 1b\n"
                     : [d] "+&r"(d), [x0] "+&r"(x0), [x1] "+&r"(x1), [a] "=&r"(a), [b] "=&r"(b),
                       [t] "=&r"(t), [u] "=&r"(u)
                     : [end] "r"(end)
                     : "cc", "memory");
#else
    for (; x0 != end; d += 4, x0 += 4, x1 += 4) {
        const uint32_t a = aot_dsp_load(x0), b = aot_dsp_load(x1);
        d[0] = aot_dsp_even(a);
        d[1] = aot_dsp_even(b);
        d[2] = aot_dsp_odd(a);
        d[3] = aot_dsp_odd(b);
    }
#endif
}

/* n quantised values from s, or n times `zero` where s is NULL; returns their end. */
static AOT_NOINLINE AOT_UNUSED int8_t *aot_qconv_dsp_put(int8_t *d, const int8_t *s, int32_t n,
                                                         int32_t zero) {
    if (s == NULL) {
        (void)memset(d, zero, (size_t)n);
        return d + n;
    }
    for (; n >= 4; n -= 4, d += 4, s += 4) {
        (void)memcpy(d, s, 4);
    }
    for (; n > 0; --n) {
        *d++ = *s++;
    }
    return d;
}

/* The quantised values of one window, x_zero outside the image; iy, ix its corner. Rows of the
 * image before `safe` are followed by others: up to three quantised values past their runs may be
 * read, and as many be written past the window. */
static AOT_NOINLINE AOT_UNUSED void aot_qconv_dsp_window(int8_t *d, const int8_t *x,
                                                         const aot_qconv_s8_params *p, int32_t iy,
                                                         int32_t ix, int32_t safe) {
    const int32_t ic = p->ic, iw = p->iw, run = p->dw == 1 ? p->kw : 1, size = run * ic;
    const int32_t bottom = iy + (p->kh - 1) * p->dh;
    const int same = (size & 3) == 0 || (AOT_ROWS_APART && (iw - ix - run) * ic > 2);
    const int32_t limit = same ? p->ih : AOT_ROWS_APART ? 0 : safe;
    int32_t ky, kx;
    if (run == p->kw && iy >= 0 && ix >= 0 && ix + run <= iw && bottom < limit) {
        const int8_t *s = AOT_AT(x, iy - p->x_row0, ix * ic, x + ((iy - p->x_row0) * iw + ix) * ic);
        for (ky = p->kh; ky > 0; --ky, d += size) {
            int32_t i = 0;
            do {
                (void)memcpy(d + i, s + i, 4);
                i += 4;
            } while (i < size);
            iy += ky > 1 ? p->dh : 0;
            s = AOT_AT(x, iy - p->x_row0, ix * ic, s + p->dh * iw * ic);
        }
        return;
    }
    for (ky = 0; ky < p->kh; ++ky, iy += p->dh) {
        const int32_t width = iy >= 0 && iy < p->ih ? iw : 0;
        const int8_t *s = AOT_ROWS_APART && width == 0
                              ? x
                              : AOT_AT(x, iy - p->x_row0, 0, x + (iy - p->x_row0) * iw * ic);
        int32_t col = ix;
        for (kx = 0; kx < p->kw; kx += run, col += run * p->dw) {
            const int32_t left = aot_requant_clamp(-col, 0, run);
            const int32_t past = aot_requant_clamp(width - col, left, run);
            d = aot_qconv_dsp_put(d, NULL, left * ic, p->x_zero);
            d = aot_qconv_dsp_put(d, s + (col + left) * ic, (past - left) * ic, 0);
            d = aot_qconv_dsp_put(d, NULL, (run - past) * ic, p->x_zero);
        }
    }
}

/* Widens n quantised values (a multiple of 4) of four columns, n apart: their words in turn. */
AOT_INLINE void aot_qconv_dsp_four(uint32_t *d, const int8_t *x, int32_t n) {
    const int8_t *const end = x + n;
#if AOT_DSP
    uint32_t a, b, t, u;
    const int8_t *x2 = x + 2 * n;
    __asm__ volatile("1:\n"
                     "ldr %[a],[%[x]]\n"
                     "ldr %[b],[%[x],%[n]]\n"
                     "sxtb16 %[t],%[a]\n"
                     "sxtb16 %[u],%[b]\n"
                     "strd %[t],%[u],[%[d]]\n"
                     "sxtb16 %[a],%[a],ror #8\n"
                     "sxtb16 %[b],%[b],ror #8\n"
                     "strd %[a],%[b],[%[d],#16]\n"
                     "ldr %[a],[%[x2]]\n"
                     "ldr %[b],[%[x2],%[n]]\n"
                     "sxtb16 %[t],%[a]\n"
                     "sxtb16 %[u],%[b]\n"
                     "strd %[t],%[u],[%[d],#8]\n"
                     "sxtb16 %[a],%[a],ror #8\n"
                     "sxtb16 %[b],%[b],ror #8\n"
                     "strd %[a],%[b],[%[d],#24]\n"
                     "add %[x],%[x],#4\n"
                     "add %[x2],%[x2],#4\n"
                     "add %[d],%[d],#32\n"
                     "cmp %[x],%[end]\n"
                     "bne 1b\n"
                     : [d] "+&r"(d), [x] "+&r"(x), [x2] "+&r"(x2), [a] "=&r"(a), [b] "=&r"(b),
                       [t] "=&r"(t), [u] "=&r"(u)
                     : [end] "r"(end), [n] "r"(n)
                     : "cc", "memory");
#else
    for (; x != end; d += 8, x += 4) {
        int32_t i;
        for (i = 0; i < 4; ++i) {
            const uint32_t a = aot_dsp_load(x + i * n);
            d[i] = aot_dsp_even(a);
            d[4 + i] = aot_dsp_odd(a);
        }
    }
#endif
}

/* The four columns from ix on of every row of a window, as aot_dsp_row_2x4 reads them. */
AOT_INLINE void aot_qconv_dsp_columns(uint32_t *d, const int8_t *x, const aot_qconv_s8_params *p,
                                      int32_t iy, int32_t ix) {
    const int32_t ic = p->ic, row = p->iw * ic;
    int8_t pad[4];
    int32_t ky, kx;
    (void)row;
    (void)memset(pad, p->x_zero, sizeof pad);
    for (ky = 0; ky < p->kh; ++ky, iy += p->dh) {
        const int inside = iy >= 0 && iy < p->ih;
        const int8_t *s =
            AOT_ROWS_APART && !inside
                ? x
                : AOT_AT(x, iy - p->x_row0, ix * ic, x + ((iy - p->x_row0) * row + ix * ic));
        if (inside && ix >= 0 && ix + 4 <= p->iw) {
            aot_qconv_dsp_four(d, s, ic);
            d += 2 * ic;
            continue;
        }
        for (kx = 0; kx < 4; ++kx) {
            const int real = inside && ix + kx >= 0 && ix + kx < p->iw;
            const int8_t *t = real ? s + kx * ic : pad;
            const uint32_t *const end = d + 2 * ic;
            uint32_t *to = d + kx;
            for (; to < end; to += 8, t += real ? 4 : 0) {
                const uint32_t a = aot_dsp_load(t);
                to[0] = aot_dsp_even(a);
                to[4] = aot_dsp_odd(a);
            }
        }
        d += 2 * ic;
    }
}

/* What the pixels of a call have in common; `last`: the last four channels, where the blocks before
 * leave some, or NULL. The loops over pixels are shared by all instances. */
typedef struct {
    aot_dsp_job job, *last;
    aot_dsp_run *run;
    uint32_t *wide;
    int32_t oc, step, depth;
} aot_qconv_dsp_state;

/* All channels of two pixels whose windows are in scratch. */
AOT_DSP_SMALL void aot_qconv_dsp_pixels(aot_qconv_dsp_state *s, int8_t *y, int two) {
    int8_t *const next = two ? y + s->step : y;
    s->job.y0 = y;
    s->job.y1 = next;
    s->run(&s->job);
    if (s->last != NULL) {
        s->last->y0 = y + s->oc - 4;
        s->last->y1 = next + s->oc - 4;
        s->run(s->last);
    }
}

/* One image; y at row y0, x at row x_row0. */
AOT_DSP_SMALL void aot_qconv_dsp_windows(int8_t *y, const int8_t *x, const aot_qconv_s8_params *p,
                                         aot_qconv_dsp_state *s, int32_t y0, int32_t y1) {
    int8_t *const stage = (int8_t *)(s->wide + s->depth);
    int32_t left = (y1 - y0) * p->ow, oy = y0, ox = 0, i;
    int32_t safe = (p->y1 - 1) * p->sh - p->pt + (p->kh - 1) * p->dh;
    safe = safe < p->ih - 1 ? safe : p->ih - 1;
    (void)memset(stage, 0, 2 * (size_t)s->depth); /* what pads a window */
    for (; left > 0; left -= 2, y += 2 * p->step) {
        for (i = 0; i < 2 && i < left; ++i) {
            aot_qconv_dsp_window(stage + i * s->depth, x, p, oy * p->sh - p->pt, ox * p->sw - p->pl,
                                 safe);
            if (++ox == p->ow) {
                ox = 0;
                ++oy;
            }
        }
        aot_qconv_dsp_widen(s->wide, stage, stage + s->depth, s->depth);
        aot_qconv_dsp_pixels(s, y, left > 1);
    }
}

AOT_DSP_SMALL void aot_qconv_dsp_points(int8_t *y, const int8_t *x, const aot_qconv_s8_params *p,
                                        aot_qconv_dsp_state *s, int32_t y0, int32_t y1) {
    int32_t left = (y1 - y0) * p->ow;
#if AOT_ROWS_APART
    const int8_t *at[2];
    int32_t row = y0 - p->x_row0, col = 0, i;
    for (; left > 0; left -= 2, y += 2 * p->step) {
        for (i = 0; i < 2 && i < left; ++i) {
            at[i] = AOT_AT(x, row, (col - p->pl) * p->ic, x);
            if (++col == p->ow) {
                col = 0;
                ++row;
            }
        }
        aot_qconv_dsp_widen(s->wide, at[0], at[i - 1], p->ic);
        aot_qconv_dsp_pixels(s, y, left > 1);
    }
    return;
#endif
    x = AOT_AT(x, y0 - p->x_row0, -p->pl * p->ic, x + ((y0 - p->x_row0) * p->iw - p->pl) * p->ic);
    for (; left > 0; left -= 2, x += 2 * p->ic, y += 2 * p->step) {
        const int two = left > 1;
        aot_qconv_dsp_widen(s->wide, x, two ? x + p->ic : x, p->ic);
        aot_qconv_dsp_pixels(s, y, two);
    }
}

AOT_DSP_SMALL void aot_qconv_dsp_rows(int8_t *y, const int8_t *x, const aot_qconv_s8_params *p,
                                      aot_qconv_dsp_state *s, int32_t y0, int32_t y1) {
    int32_t oy, ox;
    for (oy = y0; oy < y1; ++oy) {
        for (ox = 0; ox < p->ow; ox += 2) {
            const int two = ox + 1 < p->ow;
            aot_qconv_dsp_columns(s->wide, x, p, oy * p->sh - p->pt, ox - p->pl);
            aot_qconv_dsp_pixels(s, y, two);
            y += two ? 2 * p->step : p->step;
        }
    }
}

/* Rows y0 to y1 - 1, which are among those of p. Instance: KIND, see above; CLIP 0 if lo and hi are
 * -128 and 127; WIDE, see aot_dsp_mac.h; LAST 1 if oc is no multiple of 4. */
AOT_INLINE void aot_qconv_s8__dsp_rows(int8_t *y, const int8_t *x, const int8_t *w,
                                       const int32_t *bias, const int32_t *mult,
                                       const int8_t *shift, void *scratch,
                                       const aot_qconv_s8__dsp_params *p, int32_t y0, int32_t y1,
                                       int RQ, int PC, int KIND, int CLIP, int WIDE, int LAST) {
    const int32_t window = p->kh * p->kw * p->ic, depth = (window + 7) & ~7;
    const int32_t words = KIND == 2 ? 2 * p->kh * p->ic : depth;
    const int32_t block = 4 * (KIND == 2 ? window : depth), blocks = p->oc / 4;
    const aot_dsp_out out = {mult, shift, p->y_zero, p->lo, p->hi};
    aot_qconv_dsp_state s;
    aot_dsp_job last;
    int32_t image;
    s.run = aot_dsp_run_of(RQ, PC, KIND == 2, CLIP, WIDE);
    s.last = NULL;
    s.wide = (uint32_t *)scratch;
    s.oc = p->oc;
    s.step = p->step;
    s.depth = depth;
    if (KIND == 1 && depth != p->ic) {
        (void)memset(s.wide + p->ic, 0, (size_t)(depth - p->ic) * sizeof *s.wide);
    }
    s.job.x = s.wide;
    s.job.end = s.wide + words;
    aot_dsp_job_init(&s.job, &out, w, bias, 0, blocks, RQ, PC, KIND == 2, CLIP, WIDE);
    if (LAST != 0) {
        last = s.job;
        s.last = &last;
        aot_dsp_job_init(&last, &out, w + blocks * block, bias + 4 * blocks, p->oc - 4, 1, RQ, PC,
                         KIND == 2, CLIP, WIDE);
    }
    for (image = 0; image < p->n; ++image) {
        int8_t *const to = y + (image * p->oh + y0 - p->y_row0) * p->ow * p->step;
        const int8_t *const from = x + image * p->ih * p->iw * p->ic;
        if (KIND == 2) {
            aot_qconv_dsp_rows(to, from, p, &s, y0, y1);
        } else if (KIND == 1) {
            aot_qconv_dsp_points(to, from, p, &s, y0, y1);
        } else {
            aot_qconv_dsp_windows(to, from, p, &s, y0, y1);
        }
    }
}

/* All rows of p. */
AOT_INLINE void aot_qconv_s8__dsp(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                  const int32_t *mult, const int8_t *shift, void *scratch,
                                  const aot_qconv_s8__dsp_params *p, int RQ, int PC, int KIND,
                                  int CLIP, int WIDE, int LAST) {
    aot_qconv_s8__dsp_rows(y, x, w, bias, mult, shift, scratch, p, p->y0, p->y1, RQ, PC, KIND, CLIP,
                           WIDE, LAST);
}

#endif /* AOT_QCONV_S8__DSP_H */
