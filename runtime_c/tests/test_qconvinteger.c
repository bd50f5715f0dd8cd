/* SPDX-License-Identifier: MIT-0 */
/* Convolutions whose zero point a run finds, with constant weights, and what quantises for them. */
#include "quantised.h"

#include "aot_qdynamic.h"
#if AOT_VLEN > 1
#include "aot_convinteger__dot.h"
#include "aot_convinteger__vec.h"
#include "aot_dwconvinteger__vec.h"

#define V AOT_VLEN

/* What the kernels get, and the sums of aot_convinteger, [n][oc][oh][ow]. */
typedef struct run {
    aot_qconv_s8_params p;
    int XT, wz, depth;
    uint8_t xz[8];
    const uint8_t *x; /* channels last */
    const int8_t *w;  /* [oc][kh][kw][channels of a filter] */
    int32_t *lacking, *want;
} run;

/* Sums [n][C / V][oh][ow][V]. */
static void compare(const run *r, const char *what, const int32_t *y) {
    const int pixels = r->p.oh * r->p.ow, C = up_to(r->p.oc, V);
    for (int i = 0; i < r->p.n * r->p.oc * pixels; ++i) {
        const int image = i / pixels / r->p.oc, c = i / pixels % r->p.oc, at = i % pixels;
        const int block = (image * C + c / V * V) * pixels;
        same_at(what, i, y[block + at * V + c % V], r->want[i]);
    }
}

static int32_t *sums_of(const run *r, int times) {
    int32_t *to = NEW(int32_t, 2 * up_to(r->p.oc, V));
    (void)memset(to, 0, (size_t)(2 * up_to(r->p.oc, V)) * sizeof *to);
    for (int c = 0; c < r->p.oc; ++c) {
        for (int k = 0; k < r->depth; ++k) {
            to[c] += times * (r->w[c * r->depth + k] + r->lacking[c]);
        }
    }
    return to;
}

static void dots(const run *r, int flip, int strip) {
    const aot_qconv_s8_params *p = &r->p;
    const int O = p->oc > V ? 2 : 1, C = up_to(p->oc, V);
    const int length = p->dw == 1 ? p->kw * p->ic : p->ic;
    const int8_t *w = dot_weights(r->w, p->oc, r->depth / length, length, O, V);
    const int bytes = dot_bytes(p->ic, p->oh, p->ow, p->kh, p->kw, p->sh, p->sw, p->dh, p->dw);
    const int width = (p->ow - 1) * p->sw + (p->kw - 1) * p->dw + 1, BEYOND = AOT_QDOT_BEYOND;
    const int lines = 2 * (width + BEYOND) + ((p->kh - 1) * p->dh + 1) * (p->ow + BEYOND);
    void *scratch = NEW(int8_t, 8 * C + 256 + bytes + 4 * (p->oh * p->ow + BEYOND + lines));
    int32_t *bias = sums_of(r, -flip), *y = NEW(int32_t, p->n * C * p->oh * p->ow);
    (void)memcpy(bias + C, r->lacking, (size_t)p->oc * sizeof *bias);
    if (flip != 0) {
        aot_convinteger__dot(y, r->x, w, bias, sums_of(r, 1), r->xz, scratch, p, r->XT, 7, 2, O,
                             128, r->wz, strip);
    } else {
        aot_convinteger__dot(y, r->x, w, bias, sums_of(r, 1), r->xz, scratch, p, r->XT, 3, 1, O, 0,
                             r->wz, strip);
    }
    compare(r, flip ? "dot products, unsigned" : "dot products", y);
}

static void vectors(const run *r, int pair) {
    const aot_qconv_s8_params *p = &r->p;
    const int O = p->oc > V ? 2 : 1, C = up_to(p->oc, O * V);
    const int8_t *w = vector_weights(r->w, p->oc, r->depth, O, V, pair);
    int32_t *lacking = NEW(int32_t, C), *zeros = NEW(int32_t, C);
    int32_t *y = NEW(int32_t, p->n * C * p->oh * p->ow);
    (void)memset(zeros, 0, (size_t)C * sizeof *zeros);
    (void)memset(lacking, 0, (size_t)C * sizeof *lacking);
    (void)memcpy(lacking, r->lacking, (size_t)p->oc * sizeof *lacking);
    aot_convinteger__vec(y, r->x, w, zeros, lacking, r->xz, NEW(int16_t, 4 * up_to(r->depth, 2)), p,
                         r->XT, r->wz, 4, O, pair);
    compare(r, pair ? "vectors, pairs" : "vectors", y);
}

static void each(const run *r) {
    const aot_qconv_s8_params *p = &r->p;
    const int C = up_to(p->oc, V), count = p->n * p->ih * p->iw * p->ic;
    int16_t *w = NEW(int16_t, r->depth * C);
    int8_t *x = NEW(int8_t, count);
    int32_t *y = NEW(int32_t, p->n * C * p->oh * p->ow);
    (void)memset(w, 0, (size_t)(r->depth * C) * sizeof *w);
    for (int i = 0; i < r->depth * p->oc; ++i) {
        const int c = i / r->depth;
        w[i % r->depth * C + c] = (int16_t)(r->w[i] + r->lacking[c]);
    }
    for (int i = 0; i < count; ++i) {
        x[i] = (int8_t)(r->x[i] ^ (r->XT ? 128 : 0));
    }
    aot_dwconvinteger__vec(y, x, w, sums_of(r, 1), r->xz, p, r->XT, 1);
    compare(r, "filters per channel", y);
}

/* ic channels of x become oc; with `own` there is a filter per channel. */
static void test(int ic, int oc, int own, int k, int s, int d, int XT, int wz) {
    enum { N = 2, IH = 9, IW = 11, PAD = 1 };
    const int taps = k * k, deep = own ? 1 : ic, depth = taps * deep;
    const int oh = (IH + 2 * PAD - (k - 1) * d - 1) / s + 1;
    const int ow = (IW + 2 * PAD - (k - 1) * d - 1) / s + 1;
    const aot_convinteger_params plain = {N,
                                          ic,
                                          oc,
                                          own ? ic : 1,
                                          {1, IH, IW},
                                          {1, oh, ow},
                                          {1, k, k},
                                          {1, s, s},
                                          {1, d, d},
                                          {0, PAD, PAD},
                                          1};
    run r = {{N, ic, IH, IW, oc, oh, ow, k, k, s, s, d, d, PAD, PAD, 0, 0, 0, 0, oc, 0, oh, 0, 0},
             XT,
             wz,
             depth,
             {77},
             NULL,
             NULL,
             NULL,
             NULL};
    uint8_t *x = NEW(uint8_t, N * IH * IW * ic), *image = NEW(uint8_t, N * IH * IW * ic);
    int8_t *w = NEW(int8_t, oc * depth), *zero = NEW(int8_t, oc);
    check_case("%d to %d channels, %d, window %d, step %d, dilation %d, type %d, lacking %d", ic,
               oc, own, k, s, d, XT, wz);
    r.lacking = NEW(int32_t, oc);
    r.want = NEW(int32_t, N * oc * oh * ow);
    fill_u8(x, N * IH * IW * ic, 0, 255);
    r.x = x;
    r.w = some_values(oc * depth, -128);
    for (int i = 0; i < N * IH * IW * ic; ++i) {
        const int c = i % ic, pixel = i / ic % (IH * IW), n = i / ic / (IH * IW);
        image[(n * ic + c) * IH * IW + pixel] = x[i];
    }
    for (int c = 0; c < oc; ++c) {
        r.lacking[c] = wz ? (int32_t)check_integer(-120, 120) : 0;
        zero[c] = (int8_t)-r.lacking[c];
        for (int i = 0; i < depth; ++i) {
            w[(c * deep + i % deep) * taps + i / deep] = r.w[c * depth + i];
        }
    }
    aot_convinteger(r.want, image, w, r.xz, zero, &plain, XT, 0);
    if (own) {
        each(&r);
    } else {
        dots(&r, 0, 1);
        dots(&r, 128, 1 << 16);
        vectors(&r, 0);
        vectors(&r, 1);
    }
    check_free();
}

/* The same codes, scale and zero point as of plain tensors, whatever lies past the last channel. */
static void test_blocks(int n, int channels, int space, double low, double high) {
    const int C = up_to(channels, V), count = n * channels * space;
    const aot_qdynamic_u8_params plain = {count};
    const aot_qdynamic_blocks_u8_params p = {n, channels, space};
    float *x = NEW(float, count), *blocks = NEW(float, n *C *space), scale = 0, other = 0;
    uint8_t *want = NEW(uint8_t, count), *y = NEW(uint8_t, count), zero = 0, second = 0;
    check_case("dynamic quantisation, [%d, %d, %d] in %g..%g", n, channels, space, low, high);
    fill_f32(x, count, low, high);
    fill_f32(blocks, n * C * space, -900.0, 900.0);
    for (int i = 0; i < count; ++i) {
        const int image = i / space / channels, c = i / space % channels, at = i % space;
        blocks[((image * C + c / V * V) * space) + at * V + c % V] = x[i];
    }
    aot_qdynamic_u8(want, &scale, &zero, x, &plain);
    aot_qdynamic_blocks_u8(y, &other, &second, blocks, &p);
    close_at("scale", 0, (double)other, (double)scale, 0.0, 0.0);
    same_at("zero", 0, second, zero);
    for (int i = 0; i < count; ++i) {
        const int image = i / channels / space, at = i / channels % space, c = i % channels;
        same_at("code", i, y[i], want[(image * channels + c) * space + at]);
    }
    check_free();
}
#endif

int main(void) {
#if AOT_VLEN > 1
    for (int k = 0; k < 4; ++k) {
        const int wide = k % 2 ? 2 * V + 3 : 5;
        test(13, wide, 0, 3, 1 + k / 2, 1, k % 2, k / 2);
        test(6, wide, 0, 3, 1, 2, k / 2, k % 2);
        test(16, 3 * V, 0, 1, 1, 1, k % 2, k / 2);
        test(wide, wide, 1, 3, 1 + k / 2, 1 + k % 2, k / 2, 1);
        test_blocks(2, k % 2 ? 2 * V : wide, 7, k / 2 ? 1.0 : -3.0, 5.0);
    }
    test(7, V, 0, 1, 2, 1, 1, 1);
#else
    const aot_convinteger_params one = {
        1, 1, 1, 1, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, 0};
    const uint8_t x = 200, w = 7, zero = 90;
    int32_t y = 0;
    check_case("one product");
    aot_convinteger(&y, &x, &w, &zero, NULL, &one, 1, 0);
    same_at("y", 0, y, 770);
#endif
    return check_end();
}
