/* SPDX-License-Identifier: MIT-0 */
/* Resizing of int8 quantised values along up to three neighbouring axes at once, with
 * requantisation. */
#ifndef AOT_QRESIZE_S8_H
#define AOT_QRESIZE_S8_H

#include <stdint.h>

#include "aot_qexact.h"
#include "aot_rows.h"
#include "aot_simd.h"

#if AOT_VLEN > 1 && defined(__GNUC__)
#include "aot_qvec.h"
/* A product stays one where the build allows a product and a sum to become one operation. */
#if defined(__AVX512F__)
#define AOT_QRESIZE_APART(v) __asm__("" : "+v"(v))
#elif defined(__SSE2__)
#define AOT_QRESIZE_APART(v) __asm__("" : "+x"(v))
#elif defined(__aarch64__)
#define AOT_QRESIZE_APART(v) __asm__("" : "+w"(v))
#endif
#endif

/* Fraction bits of the tables of weights. */
#define AOT_QRESIZE_BITS 29

typedef struct aot_qresize_s8_params {
    int32_t outer;  /* product of the axes before the three resized ones */
    int32_t in[3];  /* their extents in x, missing ones first and 1 */
    int32_t out[3]; /* their extents in y */
    int32_t inner;  /* product of the axes after them */
    int32_t row0;   /* rows row0..row1-1 (the second axis) of y are made */
    int32_t row1;
    int32_t top;     /* by rows: the row that is the first one of x */
    int32_t taps[3]; /* inputs per output along each */
    int32_t bits;    /* fraction bits of the sums: 255 << bits times all |weights| is below 2^31 */
    int32_t mult;    /* y - y_zero = sum * mult / 2^shift */
    int32_t shift;   /* 1..62 */
    int32_t x_zero, y_zero, lo, hi;
    int32_t outside;        /* value of outputs with a tap -1 */
    int32_t lines;          /* rows of x that scratch holds as float32, 0 or taps[1] (in[0] is 1) */
    int32_t sig[2], exp[2]; /* scales of x and y, see aot_qexact.h */
} aot_qresize_s8_params;

/* One input of an output: where it is, in elements, and what it counts. */
typedef struct aot_qresize_tap {
    int32_t at, weight;
} aot_qresize_tap;

/* The product without its `drop` lowest bits, rounded; |product| + 2^(drop-1) < 2^63. */
AOT_INLINE int64_t aot_qresize_drop(int64_t product, int32_t drop) {
    return (product + ((int64_t)1 << (drop - 1))) >> drop;
}

/* A sum that is a half: what float32 makes of the products, added one after the other. */
static AOT_NOINLINE AOT_UNUSED int32_t aot_qresize_half(const aot_qresize_tap *tap, int32_t n,
                                                        const int8_t *x,
                                                        const aot_qresize_s8_params *p) {
    const aot_qexact y = {(uint32_t)p->sig[1], p->exp[1]};
    aot_qexact sum = {0, 0};
    int negative = 0;
    for (int32_t t = 0; t < n; ++t) {
        const int32_t d = x[tap[t].at] - p->x_zero, w = tap[t].weight;
        const int minus = (d < 0) != (w < 0);
        const uint64_t size = (uint64_t)(d < 0 ? -d : d) * (uint32_t)p->sig[0];
        const aot_qexact weight = aot_qexact_of((uint64_t)(w < 0 ? -(int64_t)w : w), -p->bits);
        const aot_qexact part = aot_qexact_times(weight, aot_qexact_of(size, p->exp[0]));
        int swapped;
        sum = aot_qexact_sum(sum, part, negative != minus, &swapped);
        negative = swapped ? minus : negative;
    }
    const int32_t q = aot_qexact_rint(aot_qexact_over(sum, y));
    return negative ? -q : q;
}

/* The quantised value of the sum of n taps at x, `base` what the zero point adds. */
AOT_INLINE int8_t aot_qresize_code(const aot_qresize_tap *tap, int32_t n, const int8_t *x,
                                   int32_t base, const aot_qresize_s8_params *p) {
    const int64_t half = (int64_t)1 << (p->shift - 1);
    int32_t sum = base;
    for (int32_t t = 0; t < n; ++t) {
        sum += tap[t].weight * x[tap[t].at];
    }
    const int64_t total = (int64_t)sum * p->mult + half;
    int64_t q = total >> p->shift;
    if ((total & (2 * half - 1)) == 0) {
        q = aot_qresize_half(tap, n, x, p);
    }
    q += p->y_zero;
    return (int8_t)(q < p->lo ? p->lo : q > p->hi ? p->hi : q);
}

/* Where scratch has row ib of x; most have two taps, and divisions are slow. */
AOT_INLINE int32_t aot_qresize_slot(int32_t ib, const aot_qresize_s8_params *p) {
    return p->taps[1] == 2 ? ib & 1 : ib % p->taps[1];
}

/* The taps of output (a, b, c); their number, -1 for an output outside. at and w are the tables of
   the three axes one after the other, each out * taps. Taps of weight 0 are left out. By rows x is
   the table of rows, and taps count from the first one; with LINES they count in the rows of
   scratch. */
AOT_INLINE int32_t aot_qresize_gather(aot_qresize_tap *tap, const int8_t *x, const int32_t *at,
                                      const int32_t *w, int32_t a, int32_t b, int32_t c,
                                      const aot_qresize_s8_params *p, int LINES) {
    const int32_t second = p->out[0] * p->taps[0], third = second + p->out[1] * p->taps[1];
    const int32_t *ia = at + a * p->taps[0], *wa = w + a * p->taps[0];
    const int32_t *ib = at + second + b * p->taps[1], *wb = w + second + b * p->taps[1];
    const int32_t *ic = at + third + c * p->taps[2], *wc = w + third + c * p->taps[2];
    int32_t n = 0;
    if (ia[0] < 0 || ib[0] < 0 || ic[0] < 0) {
        return -1;
    }
    for (int32_t i = 0; i < p->taps[0]; ++i) {
        for (int32_t j = 0; j < p->taps[1]; ++j) {
            const int64_t pair = aot_qresize_drop((int64_t)wa[i] * wb[j], AOT_QRESIZE_BITS);
            const int32_t above =
                LINES != 0 ? aot_qresize_slot(ib[j], p) : ia[i] * p->in[1] + ib[j];
            const int32_t line = above * p->in[2] * p->inner;
            const int32_t row =
                AOT_ROWS_APART && LINES == 0
                    ? (int32_t)(AOT_AT(x, ib[j] - p->top, 0, x) - AOT_AT(x, 0, 0, x))
                    : line;
            for (int32_t k = 0; pair != 0 && k < p->taps[2]; ++k) {
                const int32_t drop = 2 * AOT_QRESIZE_BITS - p->bits;
                const int32_t weight = (int32_t)aot_qresize_drop(pair * wc[k], drop);
                if (weight != 0) {
                    tap[n].at = row + ic[k] * p->inner;
                    tap[n++].weight = weight;
                }
            }
        }
    }
    return n;
}

#ifdef AOT_QRESIZE_APART
/* The scales, 2^-bits, and mult / 2^shift where that is 1 / 2^shift (else shift is 0). */
typedef struct aot_qresize_units {
    float x, weight;
    int32_t shift;
    aot_qvec_divisor y;
} aot_qresize_units;

/* sig * 2^exp, for exponents of normal numbers. */
AOT_INLINE float aot_qresize_scale(int32_t sig, int32_t exp) {
    const int32_t bits = (exp + 127) * (1 << 23);
    float power;
    (void)memcpy(&power, &bits, sizeof power);
    return (float)sig * power;
}

AOT_INLINE aot_qresize_units aot_qresize_unit(const aot_qresize_s8_params *p) {
    const int32_t even = __builtin_ctz((unsigned)p->mult), shift = p->shift - even;
    const int usual = p->exp[0] > -100 && p->exp[0] < 60 && p->exp[1] > -100 && p->exp[1] < 60;
    const aot_qresize_units u = {
        usual ? aot_qresize_scale(p->sig[0], p->exp[0]) : 0.0F,
        aot_qresize_scale(1, -p->bits),
        usual && p->mult >> even == 1 && shift > 0 && shift < 31 ? shift : 0,
        aot_qvec_divide_by(usual ? aot_qresize_scale(p->sig[1], p->exp[1]) : 1.0F),
    };
    return u;
}

/* Whether sums of these taps, and half a step more, stay within 31 bits. */
AOT_INLINE int aot_qresize_short(const aot_qresize_tap *tap, int32_t n,
                                 const aot_qresize_units *u) {
    int64_t most = (int64_t)1 << u->shift;
    for (int32_t t = 0; t < n; ++t) {
        most += 255 * (tap[t].weight < 0 ? -(int64_t)tap[t].weight : tap[t].weight);
    }
    return u->shift > 0 && most <= INT32_MAX;
}

/* aot_qresize_code of V neighbours: a sum that is a half is what float32 makes of it. */
AOT_INLINE void aot_qresize_vector(int8_t *y, const aot_qresize_tap *tap, int32_t n,
                                   const int8_t *x, const aot_qresize_units *u,
                                   const aot_qresize_s8_params *p) {
    aot_vi sum = aot_viset1(1 << (u->shift - 1)), half, q;
    aot_vf number = aot_vzero();
    for (int32_t t = 0; t < n; ++t) {
        const aot_vi d = aot_qvec_widen(x + tap[t].at) - p->x_zero;
        aot_vf part = aot_vi2f(d) * u->x;
        AOT_QRESIZE_APART(part);
        part *= (float)tap[t].weight * u->weight;
        AOT_QRESIZE_APART(part);
        number += part;
        sum += d * tap[t].weight;
    }
    half = (aot_vi)((sum & aot_viset1((1 << u->shift) - 1)) == 0);
    q = (half & aot_qvec_round(aot_qvec_over(number, &u->y))) | (~half & (sum >> u->shift));
    aot_qvec_narrow(y, aot_qvec_within(q + p->y_zero, p->lo, p->hi));
}

/* Whether float32 alone tells the quantised value of these taps: sums that are no half are further
 * from one than its roundings go. */
AOT_INLINE int aot_qresize_fine(const aot_qresize_tap *tap, int32_t n, const aot_qresize_units *u) {
    int64_t most = 0;
    int32_t bits = 0, unused;
    for (int32_t t = 0; t < n; ++t) {
        most += 255 * (tap[t].weight < 0 ? -(int64_t)tap[t].weight : tap[t].weight);
        bits |= tap[t].weight;
    }
    unused = bits != 0 ? __builtin_ctz((unsigned)bits) : 0;
    return n > 0 && u->shift > 0 && u->shift - unused < 20 &&
           ((most >> u->shift) + 1) * (n + 5) < INT64_C(1) << (24 - u->shift + unused);
}

/* Row ib of x as float32, where scratch has it; `held` tells which rows it has. */
AOT_INLINE void aot_qresize_line(float *lines, int32_t *held, const int8_t *x, int32_t ib,
                                 const aot_qresize_units *u, const aot_qresize_s8_params *p) {
    const int32_t size = p->in[2] * p->inner, slot = aot_qresize_slot(ib, p);
    const int8_t *from = AOT_AT(x, ib - p->top, 0, x + (ptrdiff_t)ib * size);
    float *to = lines + (ptrdiff_t)slot * size;
    int32_t i = 0;
    if (held[slot] == ib) {
        return;
    }
    held[slot] = ib;
    for (; i + AOT_VLEN <= size; i += AOT_VLEN) {
        aot_vstore(to + i, aot_vi2f(aot_qvec_widen(from + i) - p->x_zero) * u->x);
    }
    for (; i < size; ++i) {
        to[i] = (float)(from[i] - p->x_zero) * u->x;
    }
}

/* Where the vector at i begins: the last one may begin before the end of another. */
AOT_INLINE int32_t aot_qresize_begin(int32_t i, int32_t n) {
    return i + AOT_VLEN <= n ? i : n - AOT_VLEN;
}

/* A position of y from the n taps of lines, whose weights become float32. */
AOT_INLINE void aot_qresize_floats(int8_t *y, aot_qresize_tap *tap, int32_t n, const float *lines,
                                   const aot_qresize_units *u, const aot_qresize_s8_params *p) {
    for (int32_t t = 0; t < n; ++t) {
        const float weight = (float)tap[t].weight * u->weight;
        (void)memcpy(&tap[t].weight, &weight, sizeof weight);
    }
    for (int32_t i = 0; i < p->inner; i += AOT_VLEN) {
        const int32_t at = aot_qresize_begin(i, p->inner);
        aot_vf number = aot_vzero();
        aot_vi q;
        for (int32_t t = 0; t < n; ++t) {
            aot_vf part = aot_vload(lines + tap[t].at + at);
            part *= aot_vfrombits(aot_viset1(tap[t].weight));
            AOT_QRESIZE_APART(part);
            number += part;
        }
        q = aot_qvec_nearest(aot_qvec_over(number, &u->y));
        aot_qvec_narrow(y + at, aot_qvec_within(q + p->y_zero, p->lo, p->hi));
    }
}

/* What weights of two neighbouring columns make with those of two rows: four float32 weights. */
typedef struct {
    int32_t known, column[2];
    float of[4];
} aot_qresize_square;

/* aot_qresize_floats with four taps of lines, `right` floats apart in the lines at `up` and
 * `down`. */
AOT_INLINE void aot_qresize_four(int8_t *y, const float *up, const float *down, ptrdiff_t right,
                                 const aot_qresize_square *s, const aot_qresize_units *u,
                                 const aot_qresize_s8_params *p) {
    const aot_vf w0 = aot_vset1(s->of[0]), w1 = aot_vset1(s->of[1]);
    const aot_vf w2 = aot_vset1(s->of[2]), w3 = aot_vset1(s->of[3]);
    const aot_qvec_divisor by = u->y;
    const int32_t n = p->inner;
    int32_t i, j, v;
    for (i = 0; i < n; i += v * AOT_VLEN) {
        aot_vi q[4];
        v = n - i >= 4 * AOT_VLEN ? 4 : 1;
        for (j = 0; j < v; ++j) {
            const int32_t at = aot_qresize_begin(i + j * AOT_VLEN, n);
            aot_vf a = aot_vload(up + at) * w0, b = aot_vload(up + right + at) * w1;
            aot_vf c = aot_vload(down + at) * w2, d = aot_vload(down + right + at) * w3;
            AOT_QRESIZE_APART(a);
            AOT_QRESIZE_APART(b);
            AOT_QRESIZE_APART(c);
            AOT_QRESIZE_APART(d);
            q[j] = aot_qvec_nearest(aot_qvec_over(a + b + c + d, &by));
        }
        if (v == 4) {
            aot_qvec_narrow4(y + i, q, p->y_zero, p->lo, p->hi);
        } else {
            aot_qvec_narrow(y + aot_qresize_begin(i, n),
                            aot_qvec_within(q[0] + p->y_zero, p->lo, p->hi));
        }
    }
}

/* A row of y, all of whose inputs scratch holds as float32. Positions of four taps reuse the
 * weights of the one before the last, as an image of twice the size can. */
AOT_INLINE void aot_qresize_row(int8_t *y, const int8_t *x, const int32_t *at, const int32_t *w,
                                aot_qresize_tap *tap, int32_t *held, int32_t b,
                                const aot_qresize_units *u, const aot_qresize_s8_params *p,
                                int32_t *done) {
    const int32_t second = p->out[0] * p->taps[0], third = second + p->out[1] * p->taps[1];
    const int32_t *const rows = at + second + b * p->taps[1];
    const int four = p->taps[0] == 1 && p->taps[1] == 2 && p->taps[2] == 2;
    float *const lines = (float *)(void *)(held + p->taps[1]);
    const float *up = lines, *down = lines;
    aot_qresize_square squares[2];
    int32_t c = 0;
    squares[0].known = squares[1].known = 0;
    for (int32_t j = 0; rows[0] >= 0 && j < p->taps[1]; ++j) {
        aot_qresize_line(lines, held, x, rows[j], u, p);
        up = down;
        down = lines + (ptrdiff_t)aot_qresize_slot(rows[j], p) * p->in[2] * p->inner;
    }
    for (; c < p->out[2]; ++c, y += p->inner) {
        aot_qresize_square *const s = &squares[c & 1];
        const int32_t *const ic = at + third + c * p->taps[2], *const wc =
                                                                   w + third + c * p->taps[2];
        int32_t n;
        if (four && s->known != 0 && ic[0] >= 0 && wc[0] == s->column[0] && wc[1] == s->column[1]) {
            const ptrdiff_t left = (ptrdiff_t)ic[0] * p->inner;
            aot_qresize_four(y, up + left, down + left, (ptrdiff_t)(ic[1] - ic[0]) * p->inner, s, u,
                             p);
            continue;
        }
        n = aot_qresize_gather(tap, x, at, w, 0, b, c, p, 1);
        if (!aot_qresize_fine(tap, n, u)) {
            break;
        }
        aot_qresize_floats(y, tap, n, lines, u, p);
        s->known = four && n == 4;
        for (int32_t t = 0; s->known != 0 && t < n; ++t) {
            s->column[t & 1] = wc[t & 1];
            (void)memcpy(&s->of[t], &tap[t].weight, sizeof s->of[t]);
        }
    }
    *done = c;
}
#endif

/* A position of y [inner] from the n taps at x; n is -1 outside. */
AOT_INLINE void aot_qresize_position(int8_t *y, const aot_qresize_tap *tap, int32_t n,
                                     const int8_t *x, const aot_qresize_s8_params *p) {
    int32_t base = 0, i = 0;
#ifdef AOT_QRESIZE_APART
    const aot_qresize_units u = aot_qresize_unit(p);
    if (n > 0 && aot_qresize_short(tap, n, &u)) {
        for (; i + AOT_VLEN <= p->inner; i += AOT_VLEN) {
            aot_qresize_vector(y + i, tap, n, x + i, &u, p);
        }
    }
#endif
    for (int32_t t = 0; t < n; ++t) {
        base -= tap[t].weight * p->x_zero;
    }
    for (; i < p->inner; ++i) {
        y[i] = n < 0 ? (int8_t)p->outside : aot_qresize_code(tap, n, x + i, base, p);
    }
}

/* y [outer][out][inner] from x [outer][in][inner]: sums of inputs times the products of three
   weights. Scratch: a tap for every product, and with `lines` (inner is a vector at least) int32
   [lines] and float32 [lines][in[2]][inner]. Not in place. */
AOT_INLINE void aot_qresize_s8(int8_t *y, const int8_t *x, const int32_t *at, const int32_t *w,
                               void *scratch, const aot_qresize_s8_params *p) {
    aot_qresize_tap *tap = (aot_qresize_tap *)scratch;
    const int32_t plane = p->in[0] * p->in[1] * p->in[2] * p->inner;
#ifdef AOT_QRESIZE_APART
    const aot_qresize_units u = aot_qresize_unit(p);
    int32_t *held = (int32_t *)(void *)(tap + p->taps[0] * p->taps[1] * p->taps[2]);
#endif
    for (int32_t o = 0; o < p->outer; ++o, x += plane) {
#ifdef AOT_QRESIZE_APART
        for (int32_t j = 0; j < p->lines; ++j) {
            held[j] = -1;
        }
#endif
        for (int32_t a = 0; a < p->out[0]; ++a) {
            for (int32_t b = p->row0; b < p->row1; ++b) {
                int32_t c = 0;
#ifdef AOT_QRESIZE_APART
                if (p->lines > 0) {
                    aot_qresize_row(y, x, at, w, tap, held, b, &u, p, &c);
                    y += (ptrdiff_t)c * p->inner;
                }
#endif
                for (; c < p->out[2]; ++c, y += p->inner) {
                    const int32_t n = aot_qresize_gather(tap, x, at, w, a, b, c, p, 0);
                    aot_qresize_position(y, tap, n, AOT_AT(x, 0, 0, x), p);
                }
            }
        }
    }
}

#endif
