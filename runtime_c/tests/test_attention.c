/* SPDX-License-Identifier: MIT-0 */
/* Scaled dot-product attention and rotary embeddings, in doubles. */
#define AOT_ALLOW_NARROW /* without the unit: plain C */
#include "check.h"

#include "aot_attention_f32__bf16.h"
#include "aot_rotary_f32.h"

#define V AOT_VLEN
enum { BATCH = 2, KV_HEADS = 2, GROUP = 2, HEADS = KV_HEADS * GROUP };

typedef struct variant {
    int sq, skv, d, dv, how, tile, mask, zero, qk, left, right, lens, capped, strange, words;
} variant;

static const int tiles[5][2] = {{14, 2}, {6, 4}, {6, 2}, {4, 4}, {4, 2}};

/* x, or the bfloat16 next to it. */
static double operand(const variant *v, float x) {
    const uint32_t bits = aot_bf16_of(x) << 16;
    if (v->words) {
        memcpy(&x, &bits, sizeof x);
    }
    return (double)x;
}

/* What a query sees of key j: the score with everything added, -inf where it may not look. */
static double score(const variant *v, double product, const void *mask, int b, int h, int i, int j,
                    int64_t len) {
    const int at = ((b * HEADS + h) * v->sq + i) * v->skv + j;
    const int64_t place = v->lens ? i + len - v->sq : i;
    const int columns = v->mask || v->lens ? v->skv - 1 : v->skv;
    const int keys = v->lens && len < columns ? (int)len : columns;
    const double s = v->capped ? 1.5 * tanh(product / 1.5) : product;
    if (j >= keys || (v->left >= 0 && j < place - v->left) ||
        (v->right >= 0 && j > place + v->right)) {
        return -(double)INFINITY;
    }
    return v->mask == 1   ? ((const uint8_t *)mask)[at] != 0 ? s : -(double)INFINITY
           : v->mask == 2 ? s + (double)((const float *)mask)[at]
                          : s;
}

static int scratch_floats(const variant *v, int O, int O2, int rows) {
    const int sv = (v->skv + V - 1) / V * V, dw = (v->dv + V - 1) / V * V;
    const int d = v->words ? (v->d + 1) / 2 : v->d, skv = v->words ? (v->skv + 1) / 2 : v->skv;
    const int keys = d * O, values = skv * O2, query = v->words ? AOT_BF16_ROW(v->d) : 0;
    return v->how == 0   ? d * sv + skv * dw + rows * (sv + 1 + query)
           : v->how == 1 ? v->sq * (sv + query) + V * (keys > values ? keys : values)
                         : sv;
}

/* q and y have heads interleaved, [batch][query][head][d]; k and v are [batch][head][key][d]. */
static void test(const variant *v) {
    const int sq = v->sq, skv = v->skv, d = v->d, dv = v->dv;
    const int rows = v->how == 0 ? (sq < 3 ? sq : 3) : v->how == 1 ? sq : 1;
    const int P = tiles[v->tile][0], O = tiles[v->tile][1];
    const int P2 = tiles[(v->tile + 1) % 5][0], O2 = tiles[(v->tile + 1) % 5][1];
    const int64_t lens[BATCH] = {skv > 2 ? skv - 2 : skv, sq > 3 ? 2 : skv};
    const aot_attention_f32_params p = {BATCH,
                                        KV_HEADS,
                                        GROUP,
                                        sq,
                                        skv,
                                        d,
                                        dv,
                                        rows,
                                        v->mask || v->lens ? skv - 1 : skv,
                                        v->left,
                                        v->right,
                                        {sq * HEADS * d, d, HEADS * d},
                                        {KV_HEADS * skv * d, skv * d, d},
                                        {KV_HEADS * skv * dv, skv * dv, dv},
                                        {sq * HEADS * dv, dv, HEADS * dv},
                                        {HEADS * sq * skv, sq * skv, skv, 1},
                                        0.25F,
                                        v->capped ? 1.5F : 0.0F};
    const int scores = BATCH * HEADS * sq * skv;
    float *q = NEW(float, BATCH *sq *HEADS *d), *k = NEW(float, BATCH *KV_HEADS *skv *d);
    float *values = NEW(float, BATCH *KV_HEADS *skv *dv), *y = NEW(float, BATCH *sq *HEADS *dv);
    float *qk = NEW(float, scores), *bias = NEW(float, scores);
    float *scratch = NEW(float, scratch_floats(v, O, O2, rows));
    uint8_t *allowed = NEW(uint8_t, scores);
    double *s = NEW(double, skv);
    const void *mask = v->mask == 1 ? (void *)allowed : v->mask == 2 ? (void *)bias : NULL;
    check_case("attention sq %d, skv %d, d %d, dv %d, HOW %d, tile %d, MASK %d, ZERO %d, QK %d, "
               "window %d..%d, lens %d, softcap %d, strange %d, words %d",
               sq, skv, d, dv, v->how, v->tile, v->mask, v->zero, v->qk, v->left, v->right, v->lens,
               v->capped, v->strange, v->words);
    fill_f32(q, BATCH * sq * HEADS * d, -2.0, 2.0);
    fill_f32(k, BATCH * KV_HEADS * skv * d, -2.0, 2.0);
    fill_f32(values, BATCH * KV_HEADS * skv * dv, -2.0, 2.0);
    for (int i = 0; i < scores; ++i) {
        const int kind = (int)check_integer(0, 9), none = i / skv % 7 == 3;
        allowed[i] = none ? 0 : (uint8_t)(kind < 4 ? 0 : kind);
        bias[i] = none || kind == 0 ? -(float)INFINITY : (float)check_uniform(-2.0, 2.0);
    }
    if (v->strange) {
        q[0] = (float)NAN;
        k[KV_HEADS * skv * d] = (float)INFINITY;
    }
    if (v->words) {
        aot_attention_f32__bf16(y, v->qk ? qk : NULL, q, k, values, mask, v->lens ? lens : NULL,
                                scratch, &p, P, O, P2, O2, v->how, v->mask, v->zero, v->qk);
    } else {
        aot_attention_f32(y, v->qk ? qk : NULL, q, k, values, mask, v->lens ? lens : NULL, scratch,
                          &p, P, O, P2, O2, v->how, v->mask, v->zero, v->qk);
    }
    for (int row = 0; row < BATCH * HEADS * sq; ++row) {
        const int b = row / (HEADS * sq), h = row / sq % HEADS, i = row % sq, head = h / GROUP;
        double sum = 0.0, top = -(double)INFINITY;
        for (int j = 0; j < skv; ++j) {
            double product = 0.0;
            for (int t = 0; t < d; ++t) {
                product += operand(v, q[((b * sq + i) * HEADS + h) * d + t]) *
                           operand(v, k[((b * KV_HEADS + head) * skv + j) * d + t]);
            }
            product *= 0.25;
            s[j] = score(v, product, mask, b, h, i, j, lens[b]);
            if (v->qk >= 1 && v->qk <= 3) {
                const double shown = v->qk == 1   ? product
                                     : v->qk == 3 ? s[j]
                                     : v->capped  ? 1.5 * tanh(product / 1.5)
                                                  : product;
                close_at("score", row * skv + j, (double)qk[row * skv + j], shown, 4e-6, 4e-6);
            }
            top = isnan(top) || isnan(s[j]) ? (double)NAN : fmax(top, s[j]);
        }
        for (int j = 0; j < skv; ++j) {
            s[j] = top <= -(double)INFINITY && v->zero ? 0.0 : exp(s[j] - top);
            sum += s[j];
        }
        sum = top <= -(double)INFINITY && v->zero ? 1.0 : sum;
        for (int j = 0; v->qk == 4 && j < skv; ++j) {
            close_at("weight", row * skv + j, (double)qk[row * skv + j], s[j] / sum, 2e-5, 1e-6);
        }
        for (int t = 0; t < dv; ++t) {
            const int at = ((b * sq + i) * HEADS + h) * dv + t;
            double want = 0.0;
            for (int j = 0; j < skv; ++j) {
                /* A key that has no weight adds nothing. */
                const double x = operand(v, values[((b * KV_HEADS + head) * skv + j) * dv + t]);
                want += s[j] / sum * x;
            }
            /* Weights, whose sum is 1, are rounded by 2^-8 of them. */
            close_at("y", at, (double)y[at], want, 0.0, v->words ? 2e-5 + 2.0 / 256 : 2e-5);
        }
    }
    check_free();
}

/* The variant, with windows and lengths, and with numbers that are not finite. */
static void test_ways(variant v) {
    test(&v);
    v.zero = 1;
    v.right = 0;
    v.left = v.qk - 1;
    v.lens = v.qk > 2 && v.skv > 1;
    test(&v);
    v.strange = 1;
    v.lens = v.capped = v.mask = 0;
    v.left = v.right = -1;
    test(&v);
}

static void test_rotary(int half, int size, int interleaved, int placed, int in_place) {
    const aot_rotary_f32_params p = {2, 3, 2, size, half, 6, {6 * size, size, 3 * size}};
    static const int64_t places[6] = {0, 5, -1, 9, -9, 2};
    static const int rows[6] = {0, 5, 5, 5, 0, 2};
    const int n = 12 * size;
    float *x = NEW(float, n), *y = NEW(float, n), *c = NEW(float, 6 * half),
          *s = NEW(float, 6 * half);
    double *want = NEW(double, n);
    check_case("rotary of %d in %d, interleaved %d, places %d, in place %d", half, size,
               interleaved, placed, in_place);
    fill_f32(x, n, -2.0, 2.0);
    fill_f32(c, 6 * half, -1.0, 1.0);
    fill_f32(s, 6 * half, -1.0, 1.0);
    for (int i = 0; i < n; ++i) {
        /* [batch][head][token][size] */
        const int token = i / (6 * size) * 3 + i / size % 3, e = i % size;
        const int pair = interleaved ? e / 2 : e % half, second = interleaved ? e % 2 : e / half;
        const int angle = (placed ? rows[token] : token) * half + pair;
        want[i] = (double)x[i];
        if (e < 2 * half) {
            const int other = i + (second ? -1 : 1) * (interleaved ? 1 : half);
            want[i] = (double)c[angle] * (double)x[i] +
                      (second ? 1.0 : -1.0) * (double)s[angle] * (double)x[other];
        }
    }
    if (in_place) {
        (void)memcpy(y, x, (size_t)n * sizeof *y);
    }
    aot_rotary_f32(y, in_place ? y : x, c, s, placed ? places : NULL, &p, interleaved);
    close_f32("y", y, want, n, 1e-6, 1e-6);
    check_free();
}

int main(void) {
    static const int sizes[][4] = {{1, 1, 1, 1},    {5, 7, 4, 3},   {4, 16, 8, 16},
                                   {7, 19, 19, 70}, {3, 33, 5, 17}, {1, 40, 16, 33}};
    for (int k = 0; k < 6; ++k) {
        for (int how = 0; how < 3; ++how) {
            for (int mask = 0; mask < 3; ++mask) {
                for (int qk = 0; qk < 5; ++qk) {
                    variant v = {sizes[k][0],
                                 sizes[k][1],
                                 sizes[k][2],
                                 sizes[k][3],
                                 how,
                                 (k + qk) % 5,
                                 sizes[k][1] > 1 ? mask : 0,
                                 qk % 2,
                                 qk,
                                 -1,
                                 -1,
                                 0,
                                 (k + qk) % 3 == 0,
                                 0,
                                 0};
                    test_ways(v);
                    v.words = 1;
                    if (how < 2) {
                        test_ways(v);
                    }
                }
            }
        }
    }
    for (int k = 0; k < 8; ++k) {
        test_rotary(1, 2, k & 1, k >> 1 & 1, k >> 2);
        test_rotary(5, 13, k & 1, k >> 1 & 1, k >> 2);
        test_rotary(20, 40, k & 1, k >> 1 & 1, k >> 2);
    }
    return check_end();
}
