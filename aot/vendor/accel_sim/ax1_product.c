/* SPDX-License-Identifier: MIT-0 */
/* MM and DW.
 *
 * int8: a chunk of the window's elements at a time, as int16: columns of weights are turned so that
 * every sum is one product of two contiguous vectors. float32: every product and every sum is
 * rounded, in the order of the elements, so nothing may be contracted. */
#include "ax1_core.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("O3", "fp-contract=off")
#endif

#define AX1_CHUNK 128
#define AX1_GROUP 4 /* tiles at a time */

typedef struct ax1_job {
    ax1_machine *m;
    ax1_view v;
    ax1_kernel k;
    int32_t y, x, at, cols, pixels, depth, wgt, acc;
    int add, pad_ok;
} ax1_job;

static void ax1_job_of(ax1_job *j, ax1_machine *m, const ax1_entry *e) {
    j->m = m;
    j->v = ax1_view_of(e->view);
    j->k = ax1_kernel_of(e->kern);
    j->y = AX1_MM_Y(e->w);
    j->x = AX1_MM_X(e->w);
    j->at = AX1_MM_AT(e->w);
    j->cols = AX1_MM_COLS(e->w);
    j->pixels = AX1_MM_ROWS(e->w) * j->cols;
    j->depth = j->k.kh * j->k.kw * j->k.ci;
    j->wgt = AX1_MM_WGT(e->w);
    j->acc = AX1_MM_ACC(e->w);
    j->add = AX1_MM_ADD(e->w) != 0;
    j->pad_ok = 1;
}

/* A tap of the window of a pixel: its place in the window, and in the view. */
typedef struct ax1_place {
    int32_t kx, y, x, left;
} ax1_place;

static ax1_place ax1_place_of(const ax1_job *j, int32_t p, int32_t tap) {
    const int32_t ky = tap / j->k.kw;
    ax1_place t;
    t.kx = tap % j->k.kw;
    t.left = j->x + p % j->cols * j->k.sw;
    t.y = j->y + p / j->cols * j->k.sh + ky * j->k.dh;
    t.x = t.left + t.kx * j->k.dw;
    return t;
}

static void ax1_next(const ax1_job *j, ax1_place *t) {
    t->x += j->k.dw;
    if (++t->kx == j->k.kw) {
        t->kx = 0;
        t->x = t->left;
        t->y += j->k.dh;
    }
}

/* `bytes` bytes of a tap from its byte `at` on. NULL: outside the view (pad_ok stays 1) or outside
 * SPM (pad_ok becomes 0). */
static const uint8_t *ax1_tap(ax1_job *j, const ax1_place *t, int32_t at, int32_t bytes) {
    const int32_t y = t->y, x = t->x;
    const uint8_t *found;
    if (!ax1_inside(&j->v, y, x)) {
        return NULL;
    }
    found = ax1_bytes(j->m, &j->v, y, x, j->at + at, bytes);
    j->pad_ok = j->pad_ok && found != NULL;
    return found;
}

/* Elements first .. first + n - 1 of the window of pixel p. */
static void ax1_gather(ax1_job *j, int16_t *to, int32_t p, int32_t first, int32_t n) {
    int32_t e = 0, c = first % j->k.ci, i;
    ax1_place place = ax1_place_of(j, p, first / j->k.ci);
    while (e < n) {
        const int32_t left = j->k.ci - c, run = left < n - e ? left : n - e;
        const int8_t *from = (const int8_t *)ax1_tap(j, &place, c, run);
        const int16_t pad = (int16_t)j->v.pad;
        if (from == NULL) {
            for (i = 0; i < run; ++i) {
                to[e + i] = pad;
            }
        } else {
            for (i = 0; i < run; ++i) {
                to[e + i] = from[i];
            }
        }
        e += run;
        c = 0;
        ax1_next(j, &place);
    }
}

static int32_t ax1_dot(const int16_t *a, const int16_t *b, int32_t n) {
    int32_t sum = 0, i;
    for (i = 0; i < n; ++i) {
        sum += a[i] * b[i];
    }
    return sum;
}

static int32_t ax1_plus(int32_t a, int32_t b) {
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

/* Columns of weights of the elements first .. first + n - 1 of a tile, and zeros up to `even`. */
static void ax1_columns(const ax1_job *j, int16_t (*w)[AX1_CHUNK], int32_t tile, int32_t first,
                        int32_t n, int32_t even) {
    int32_t i, c;
    for (i = 0; i < n; ++i) {
        const int32_t row = (j->wgt + tile * j->depth + first + i) % AX1_WGT_ROWS;
        for (c = 0; c < AX1_M; ++c) {
            w[c][i] = j->m->wgt[row * AX1_M + c];
        }
    }
    for (i = n; i < even; ++i) {
        for (c = 0; c < AX1_M; ++c) {
            w[c][i] = 0;
        }
    }
}

/* The sums of tiles tile .. tile + tiles - 1 over the elements first .. first + n - 1. */
static void ax1_chunk(ax1_job *j, int32_t tile, int32_t tiles, int32_t first, int32_t n) {
    static int16_t w[AX1_GROUP][AX1_M][AX1_CHUNK]; /* one machine, one thread */
    int16_t x[AX1_CHUNK];
    const int replace = first == 0 && !j->add;
    const int32_t even = (n + 15) / 16 * 16;
    int32_t p, c, t;
    memset(x, 0, sizeof x);
    for (t = 0; t < tiles; ++t) {
        ax1_columns(j, w[t], tile + t, first, n, even);
    }
    for (p = 0; p < j->pixels; ++p) {
        ax1_gather(j, x, p, first, n);
        for (t = 0; t < tiles; ++t) {
            const int32_t row = j->acc + (tile + t) * j->pixels + p;
            int32_t *sums = j->m->acc[row % AX1_ACC_ROWS];
            for (c = 0; c < AX1_M; ++c) {
                sums[c] = ax1_plus(replace ? 0 : sums[c], ax1_dot(x, w[t][c], even));
            }
        }
    }
}

/* Whether weights of `depth` rows per tile and the sums fit their memories. */
static int ax1_fits(const ax1_job *j, int32_t tiles, int32_t depth) {
    return depth <= AX1_WGT_ROWS / tiles && j->pixels <= AX1_ACC_ROWS / tiles;
}

/* float32 values of lanes of a row of WGT. */
static void ax1_lanes(float *to, const ax1_machine *m, int32_t row) {
    memcpy(to, m->wgt + (size_t)(row % AX1_WGT_ROWS) * AX1_M, AX1_M);
}

/* One element of all lanes in float32. */
static void ax1_step(float *sums, const float *x, const float *w, int32_t same) {
    int32_t c;
    for (c = 0; c < AX1_M / 4; ++c) {
        const float product = x[same ? 0 : c] * w[c];
        sums[c] = sums[c] + product;
    }
}

/* The float32 sums of one pixel; `tile_at` is the first channel of the tile of DW, -1 for MM. */
static void ax1_float_pixel(ax1_job *j, int32_t p, int32_t row, int32_t sum_row, int32_t tile_at) {
    const int32_t taps = j->k.kh * j->k.kw, dw = tile_at >= 0, lanes = AX1_M / 4;
    int32_t *bits = j->m->acc[sum_row % AX1_ACC_ROWS];
    float sums[AX1_M / 4], w[AX1_M / 4], x[AX1_M / 4];
    ax1_place place = ax1_place_of(j, p, 0);
    int32_t tap, c;
    memset(sums, 0, sizeof sums);
    if (j->add) {
        memcpy(sums, bits, sizeof sums);
    }
    for (tap = 0; tap < taps; ++tap, ax1_next(j, &place)) {
        const int32_t count = dw ? (j->k.ci - tile_at < lanes ? j->k.ci - tile_at : lanes) : 1;
        for (c = 0; c < (dw ? 1 : j->k.ci); ++c) {
            const uint8_t *from =
                count > 0 ? ax1_tap(j, &place, 4 * (dw ? tile_at - j->at / 4 : c), 4 * count)
                          : NULL;
            memset(x, 0, sizeof x);
            if (from != NULL) {
                memcpy(x, from, (size_t)(4 * count));
            }
            ax1_lanes(w, j->m, row + (dw ? tap : tap * j->k.ci + c));
            ax1_step(sums, x, w, !dw);
        }
    }
    memcpy(bits, sums, sizeof sums);
}

static uint32_t ax1_float(ax1_job *j, const ax1_entry *e, int dw) {
    const int32_t tiles = AX1_MM_TILES(e->w), depth = dw ? j->k.kh * j->k.kw : j->depth;
    int32_t t, p;
    for (t = 0; t < tiles; ++t) {
        for (p = 0; p < j->pixels; ++p) {
            ax1_float_pixel(j, p, j->wgt + t * depth, j->acc + t * j->pixels + p,
                            dw ? j->at / 4 + t * (AX1_M / 4) : -1);
        }
    }
    return j->pad_ok ? 0U : AX1_FAULT_LOCAL;
}

uint32_t AX1_NAME(exec_product)(ax1_machine *m, const ax1_entry *e) {
    const int32_t tiles = AX1_MM_TILES(e->w);
    ax1_job j;
    int32_t t, first;
    ax1_job_of(&j, m, e);
    if (!ax1_fits(&j, tiles, j.depth)) {
        return AX1_FAULT_LOCAL;
    }
    if (ax1_size(e) == 4) {
        return ax1_float(&j, e, 0);
    }
    for (t = 0; t < tiles; t += AX1_GROUP) {
        const int32_t group = tiles - t < AX1_GROUP ? tiles - t : AX1_GROUP;
        for (first = 0; first < j.depth; first += AX1_CHUNK) {
            const int32_t left = j.depth - first;
            ax1_chunk(&j, t, group, first, left < AX1_CHUNK ? left : AX1_CHUNK);
        }
    }
    return j.pad_ok ? 0U : AX1_FAULT_LOCAL;
}

/* int8 DW: one pixel of one tile with `count` channels from `from` of the pixel on. */
static void ax1_depth_pixel(ax1_job *j, int32_t p, int32_t row, int32_t sum_row, int32_t from,
                            int32_t count) {
    int32_t *sums = j->m->acc[sum_row % AX1_ACC_ROWS];
    int32_t tap, c, taps = j->k.kh * j->k.kw;
    int32_t total[AX1_M];
    int16_t x[AX1_M];
    ax1_place place = ax1_place_of(j, p, 0);
    memset(total, 0, sizeof total);
    memset(x, 0, sizeof x);
    for (tap = 0; tap < taps; ++tap, ax1_next(j, &place)) {
        const int8_t *w = j->m->wgt + (size_t)((row + tap) % AX1_WGT_ROWS) * AX1_M;
        const int8_t *in = (const int8_t *)ax1_tap(j, &place, from, count);
        if (in != NULL && count == AX1_M) {
            for (c = 0; c < AX1_M; ++c) {
                total[c] += (int16_t)in[c] * (int16_t)w[c];
            }
            continue;
        }
        for (c = 0; c < count; ++c) {
            x[c] = (int16_t)(in != NULL ? in[c] : j->v.pad);
        }
        for (c = 0; c < AX1_M; ++c) {
            total[c] += x[c] * w[c];
        }
    }
    for (c = 0; c < AX1_M; ++c) {
        sums[c] = ax1_plus(j->add ? sums[c] : 0, total[c]);
    }
}

uint32_t AX1_NAME(exec_depthwise)(ax1_machine *m, const ax1_entry *e) {
    const int32_t tiles = AX1_DW_TILES(e->w);
    ax1_job j;
    int32_t t, p;
    ax1_job_of(&j, m, e);
    if (!ax1_fits(&j, tiles, j.k.kh * j.k.kw)) {
        return AX1_FAULT_LOCAL;
    }
    if (ax1_size(e) == 4) {
        return ax1_float(&j, e, 1);
    }
    for (t = 0; t < tiles; ++t) {
        const int32_t left = j.k.ci - j.at - t * AX1_M;
        const int32_t count = left < 0 ? 0 : left < AX1_M ? left : AX1_M;
        for (p = 0; p < j.pixels; ++p) {
            ax1_depth_pixel(&j, p, j.wgt + t * j.k.kh * j.k.kw, j.acc + t * j.pixels + p, t * AX1_M,
                            count);
        }
    }
    return j.pad_ok ? 0U : AX1_FAULT_LOCAL;
}
