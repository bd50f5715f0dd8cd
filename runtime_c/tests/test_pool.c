/* SPDX-License-Identifier: MIT-0 */
/* Pooling: maxima, averages and norms of windows in up to three axes, plain and in blocks. */
#include "check.h"

#include "aot_globalpool_f32.h"
#include "aot_maxpool_s8_blocked.h"
#include "aot_pool.h"
#include "aot_pool_f32_blocked.h"
#include "aot_pool_plain.h"

#define V AOT_VLEN
#define PLANES 3

/* planes, in, out, window, strides, dilations, pads before and after, rows, order of the norm,
 * planes */
static const aot_pool_params cases[] = {
    {3, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, 0, 1, 2, 0, 0},
    {3,
     {1, 7, 21},
     {1, 5, 19},
     {1, 3, 3},
     {1, 1, 1},
     {1, 1, 1},
     {0, 0, 0},
     {0, 0, 0},
     0,
     5,
     2,
     0,
     0},
    {3,
     {1, 7, 20},
     {1, 4, 10},
     {1, 3, 3},
     {1, 2, 2},
     {1, 1, 1},
     {0, 1, 1},
     {0, 1, 0},
     0,
     4,
     1,
     0,
     0},
    {3, {1, 6, 9}, {1, 6, 9}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}, 1, 5, 3, 0, 0},
    {3, {1, 8, 8}, {1, 4, 4}, {1, 2, 2}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, 0, 4, 2, 0, 0},
    {3, {4, 5, 6}, {3, 3, 4}, {2, 3, 2}, {1, 2, 1}, {1, 1, 2}, {0, 1, 0}, {0, 1, 0}, 0, 3, 1, 0, 0},
    {3,
     {1, 1, 17},
     {1, 1, 5},
     {1, 1, 5},
     {1, 1, 4},
     {1, 1, 1},
     {0, 0, 2},
     {0, 0, 4},
     0,
     1,
     4,
     0,
     0},
    {3, {1, 9, 7}, {1, 4, 3}, {1, 3, 2}, {1, 2, 3}, {1, 2, 2}, {0, 1, 1}, {0, 0, 2}, 0, 4, 2, 0, 0},
    {3,
     {1, 9, 12},
     {1, 5, 7},
     {1, 3, 3},
     {1, 2, 2},
     {1, 2, 3},
     {0, 2, 4},
     {0, 2, 4},
     0,
     5,
     2,
     0,
     0},
    {3, {1, 2, 2}, {1, 4, 4}, {1, 2, 2}, {1, 2, 2}, {1, 1, 1}, {0, 3, 3}, {0, 3, 3}, 0, 4, 2, 0, 0},
};
#define CASES (int)(sizeof cases / sizeof *cases)

static int volume(const int32_t *extents) {
    return extents[0] * extents[1] * extents[2];
}

typedef struct window {
    double most, sum, norm;
    int inside, padded, column; /* taps in x, taps in x with its pads, column-major place */
    int at;                     /* of the maximum in the plane, -1 without any tap */
} window;

/* One window of a plane whose elements are `step` apart. */
static window look(const double *x, int step, const aot_pool_params *p, int to) {
    const int o[3] = {to / (p->out[1] * p->out[2]), to / p->out[2] % p->out[1], to % p->out[2]};
    window r = {-(double)INFINITY, 0.0, 0.0, 0, 0, 0, -1};
    for (int t = 0; t < volume(p->k); ++t) {
        const int tap[3] = {t / (p->k[1] * p->k[2]), t / p->k[2] % p->k[1], t % p->k[2]};
        int at[3], inside = 1, padded = 1, flat = 0;
        for (int a = 0; a < 3; ++a) {
            at[a] = o[a] * p->s[a] + tap[a] * p->d[a] - p->before[a];
            inside = inside && at[a] >= 0 && at[a] < p->in[a];
            padded = padded && at[a] < p->in[a] + p->after[a];
            flat = flat * p->in[a] + at[a];
        }
        r.padded += padded;
        if (inside) {
            const double v = x[flat * step];
            r.sum += v;
            r.norm += pow(fabs(v), p->order);
            ++r.inside;
            if (r.at < 0 || (!isnan(r.most) && !(v <= r.most))) {
                r.most = v;
                r.at = flat;
                r.column = (at[2] * p->in[1] + at[1]) * p->in[0] + at[0];
            }
        }
    }
    r.norm = pow(r.norm, 1.0 / p->order);
    return r;
}

/* Numbers, and in a maximum NaN, infinities and equal ones. */
static double some_value(int special) {
    const int64_t kind = special ? check_integer(0, 30) : 30;
    return kind == 0   ? (double)NAN
           : kind == 1 ? (double)INFINITY
           : kind == 2 ? -(double)INFINITY
           : kind < 20 ? (double)check_integer(-4, 4)
                       : (double)(float)check_uniform(-4.0, 4.0);
}

static void test_plain(int number, int special) {
    aot_pool_params planes = cases[number];
    const aot_pool_params *p = &planes;
    const int in = volume(p->in), out = volume(p->out);
    double *x = NEW(double, PLANES *in), *y = NEW(double, PLANES *out);
    float *xf = NEW(float, PLANES *in), *yf = NEW(float, PLANES *out), *mean[2];
    float *norm = NEW(float, PLANES *out);
    double *mean64[2];
    int64_t *places = NEW(int64_t, PLANES * out), *columns = NEW(int64_t, PLANES * out);
    int8_t *xs = NEW(int8_t, PLANES * in), *ys = NEW(int8_t, PLANES * out);
    uint8_t *xu = NEW(uint8_t, PLANES * in), *yu = NEW(uint8_t, PLANES * out);
    planes.y_plane = out;
    planes.x_plane = in;
    check_case("pool %d, special %d", number, special);
    for (int i = 0; i < PLANES * in; ++i) {
        x[i] = some_value(special);
        xf[i] = (float)x[i];
    }
    fill_s8(xs, PLANES * in, -128, 127);
    fill_u8(xu, PLANES * in, 0, 255);
    aot_maxpool_f32(yf, places, xf, p, 0);
    aot_maxpool_f64(y, columns, x, p, 1);
    aot_maxpool_s8(ys, NULL, xs, p, 0);
    aot_maxpool_u8(yu, NULL, xu, p, 0);
    for (int padded = 0; padded < 2; ++padded) {
        mean[padded] = NEW(float, PLANES *out);
        mean64[padded] = NEW(double, PLANES *out);
        aot_avgpool_f32(mean[padded], xf, p, padded);
        aot_avgpool_f64(mean64[padded], x, p, padded);
    }
    aot_lppool_f32(norm, xf, p);
    for (int i = 0; i < PLANES * out; ++i) {
        const int plane = i / out, row = i / p->out[2] % p->out[1];
        const window w = look(x + plane * in, 1, p, i % out);
        int low = -128, high = 0;
        if (row < p->row0 || row >= p->row1) {
            CHECK(isnan(yf[i]) && isnan(y[i]) && isnan(norm[i]) && isnan(mean[0][i]));
            continue;
        }
        close_at("maximum", i, (double)yf[i], w.most, 0.0, 0.0);
        close_at("maximum of float64", i, y[i], w.most, 0.0, 0.0);
        same_at("place", i, places[i], plane * in + (w.at < 0 ? 0 : w.at));
        same_at("column-major place", i, columns[i], plane * in + w.column);
        if (!special) {
            const int counts[2] = {w.inside, w.padded};
            for (int k = 0; k < 2; ++k) {
                const double want = w.sum / (counts[k] > 0 ? counts[k] : 1);
                close_at("mean", i, (double)mean[k][i], want, 1e-6, 1e-6);
                close_at("mean of float64", i, mean64[k][i], want, 1e-13, 1e-13);
            }
            close_at("norm", i, (double)norm[i], w.norm, 2e-6, 0.0);
        }
        for (int t = 0; t < in; ++t) {
            /* The values of the window: a plane that is 1 at one place tells whether it counts. */
            const int z = t / (p->in[1] * p->in[2]), r = t / p->in[2] % p->in[1], c = t % p->in[2];
            const int at[3] = {z, r, c};
            const int o[3] = {i % out / (p->out[1] * p->out[2]), row, i % p->out[2]};
            int counts = 1;
            for (int a = 0; a < 3; ++a) {
                const int from = at[a] - o[a] * p->s[a] + p->before[a];
                counts = counts && from >= 0 && from % p->d[a] == 0 && from / p->d[a] < p->k[a];
            }
            low = counts && xs[plane * in + t] > low ? xs[plane * in + t] : low;
            high = counts && xu[plane * in + t] > high ? xu[plane * in + t] : high;
        }
        same_at("maximum of int8", i, ys[i], low);
        same_at("maximum of uint8", i, yu[i], high);
    }
    check_free();
}

static void test_blocked(int number, int special) {
    aot_pool_params blocks = cases[number];
    const aot_pool_params *p = &blocks;
    const int in = volume(p->in), out = volume(p->out), kw = p->k[2];
    const int KW = kw == 2 || kw == 3 ? kw : 0;
    const int SW = kw == 3 && p->s[2] <= 2 && p->in[0] == 1 && p->d[2] == 1 ? p->s[2] : 0;
    float *x = NEW(float, PLANES *in *V), *most = NEW(float, PLANES *out *V);
    double *wide = NEW(double, PLANES *in *V);
    blocks.y_plane = out * V;
    blocks.x_plane = in * V;
    check_case("blocked pool %d, special %d", number, special);
    for (int i = 0; i < PLANES * in * V; ++i) {
        wide[i] = some_value(special);
        x[i] = (float)wide[i];
    }
    if (KW == 3 && SW == 1) {
        aot_maxpool_f32_blocked(most, x, p, 3, 1);
    } else if (KW == 3 && SW == 2) {
        aot_maxpool_f32_blocked(most, x, p, 3, 2);
    } else {
        aot_maxpool_f32_blocked(most, x, p, KW, SW);
    }
    for (int padded = 0; padded < 2; ++padded) {
        float *mean = NEW(float, PLANES *out *V);
        aot_avgpool_f32_blocked(mean, x, p, KW, padded);
        for (int i = 0; i < PLANES * out * V; ++i) {
            const int plane = i / (out * V), at = i / V % out, row = at / p->out[2] % p->out[1];
            const window w = look(wide + plane * in * V + i % V, V, p, at);
            const int taps = padded ? w.padded : w.inside;
            if (row < p->row0 || row >= p->row1) {
                CHECK(isnan(most[i]) && isnan(mean[i]));
                continue;
            }
            close_at("maximum", i, (double)most[i], w.most, 0.0, 0.0);
            if (!special) {
                close_at("mean", i, (double)mean[i], w.sum / (taps > 0 ? taps : 1), 1e-6, 1e-6);
            }
        }
    }
    check_free();
}

/* Codes in blocks of any size; windows without a position inside are not stored. */
static void test_values(int number, int lanes, int is_unsigned) {
    const aot_pool_params *p = &cases[number];
    const int in = volume(p->in), out = volume(p->out);
    uint8_t *x = NEW(uint8_t, PLANES * in * lanes), *y = NEW(uint8_t, PLANES * out * lanes);
    double *wide = NEW(double, in);
    check_case("maxima of values %d, blocks of %d, unsigned %d", number, lanes, is_unsigned);
    fill_u8(x, PLANES * in * lanes, 0, 255);
    aot_maxpool_s8_blocked(y, x, p, lanes, is_unsigned);
    for (int i = 0; i < PLANES * lanes; ++i) {
        for (int k = 0; k < in; ++k) {
            const uint8_t value = x[(i / lanes * in + k) * lanes + i % lanes];
            wide[k] = is_unsigned || value < 128 ? value : value - 256;
        }
        for (int k = 0; k < out; ++k) {
            const window w = look(wide, 1, p, k);
            const int row = k / p->out[2] % p->out[1];
            const uint8_t got = y[(i / lanes * out + k) * lanes + i % lanes];
            if (w.inside > 0 && row >= p->row0 && row < p->row1) {
                same_at("y", k, is_unsigned || got < 128 ? got : got - 256, (int64_t)w.most);
            }
        }
    }
    check_free();
}

static void test_global(int size, int special) {
    const aot_globalpool_f32_params p = {PLANES, size, size * V};
    float *x = NEW(float, PLANES *size *V), y[2][PLANES], b[2][PLANES * V];
    check_case("global pool of %d, special %d", size, special);
    for (int i = 0; i < PLANES * size * V; ++i) {
        x[i] = (float)some_value(special && check_random() % 20 == 0);
    }
    aot_globalpool_f32(y[0], x, &p, AOT_GLOBALPOOL_AVERAGE);
    aot_globalpool_f32(y[1], x, &p, AOT_GLOBALPOOL_MAX);
    aot_globalpool_f32_blocked(b[0], x, &p, AOT_GLOBALPOOL_AVERAGE);
    aot_globalpool_f32_blocked(b[1], x, &p, AOT_GLOBALPOOL_MAX);
    for (int i = 0; i < PLANES * (V + 1); ++i) {
        /* First the planes [PLANES][size], then the lanes of [PLANES][size][V]. */
        const int lanes = i >= PLANES, step = lanes ? V : 1, at = i - PLANES;
        const float *from = !lanes ? x + i * size : x + at / V * size * V + at % V;
        double most = -(double)INFINITY, sum = 0.0;
        for (int k = 0; k < size; ++k) {
            const double v = (double)from[k * step];
            sum += v;
            most = isnan(most) || isnan(v) ? (double)NAN : fmax(most, v);
        }
        close_at("maximum", i, (double)(lanes ? b[1][at] : y[1][i]), most, 0.0, 0.0);
        close_at("mean", i, (double)(lanes ? b[0][at] : y[0][i]), sum / size, 1e-6, 1e-6);
    }
    for (int kind = 0; kind < 2; ++kind) { /* position by position: the same bits */
        float *sums = NEW(float, 4 * PLANES * V), *z = NEW(float, PLANES *V);
        for (int k = 0; k < size; ++k) {
            aot_globalpool_f32_blocked_row(z, x + k * V, sums, k, size, &p, kind);
        }
        for (int i = 0; i < PLANES * V; ++i) {
            close_at("by rows", i, (double)z[i], (double)b[kind][i], 0.0, 0.0);
        }
    }
    check_free();
}

int main(void) {
    static const int sizes[] = {1, 3, 4, 15, 16, 17, 49, 130};
    for (int k = 0; k < CASES * 2; ++k) {
        test_plain(k / 2, k % 2);
        test_blocked(k / 2, k % 2);
        test_values(k / 2, 5, k % 2);
        test_values(k / 2, 16, k % 2);
    }
    for (int k = 0; k < 16; ++k) {
        test_global(sizes[k / 2], k % 2);
    }
    return check_end();
}
