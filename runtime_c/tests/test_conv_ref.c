/* SPDX-License-Identifier: MIT-0 */
/* Convolutions in plain loops: up to three spatial axes, transposed, deformable; Col2Im. */
#include "convolution.h"

#include "aot_col2im.h"
#include "aot_conv_f32_ref.h"
#include "aot_conv_f64_ref.h"
#include "aot_convtranspose_f32.h"
#include "aot_deformconv_f32.h"

#define V AOT_VLEN

/* n, ic, oc, groups, in, out, kernel, strides, dilations, pads: axes depth, height, width */
static const aot_conv_f32_ref_params volumes[] = {
    {1, 1, 1, 1, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
    {2, 4, 6, 2, {3, 4, 5}, {3, 4, 5}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {1, 2, 3, 1, {1, 1, 17}, {1, 1, 9}, {1, 1, 5}, {1, 1, 2}, {1, 1, 1}, {0, 0, 2}},
    {1, 3, 3, 3, {1, 7, 6}, {1, 4, 2}, {1, 2, 3}, {1, 2, 3}, {1, 2, 1}, {0, 1, 0}},
    {1, 1, 2, 1, {4, 2, 3}, {3, 1, 4}, {2, 2, 2}, {2, 1, 1}, {1, 1, 3}, {1, 0, 2}},
};

static void test_volume(int number, int biased) {
    const aot_conv_f32_ref_params *p = &volumes[number];
    const int icg = p->ic / p->groups, in = p->in[0] * p->in[1] * p->in[2];
    const int out = p->out[0] * p->out[1] * p->out[2], taps = p->k[0] * p->k[1] * p->k[2];
    const int nx = p->n * p->ic * in, nw = p->oc * icg * taps, ny = p->n * p->oc * out;
    float *x = NEW(float, nx), *w = NEW(float, nw), *bias = NEW(float, p->oc), *y = NEW(float, ny);
    double *dx = NEW(double, nx), *dw = NEW(double, nw), *db = NEW(double, p->oc);
    double *dy = NEW(double, ny), *want = NEW(double, ny);
    aot_conv_f64_ref_params q;
    (void)memcpy(&q, p, sizeof q);
    check_case("conv of a volume %d, bias %d", number, biased);
    fill_f32(x, nx, -1.0, 1.0);
    fill_f32(w, nw, -1.0, 1.0);
    fill_f32(bias, p->oc, -1.0, 1.0);
    for (int i = 0; i < nx; ++i) {
        dx[i] = (double)x[i];
    }
    for (int i = 0; i < nw; ++i) {
        dw[i] = (double)w[i];
    }
    for (int i = 0; i < p->oc; ++i) {
        db[i] = (double)bias[i];
    }
    for (int i = 0; i < ny; ++i) {
        const int o = i / out % p->oc, image = i / (out * p->oc), group = o / (p->oc / p->groups);
        const int at[3] = {i % out / (p->out[1] * p->out[2]), i / p->out[2] % p->out[1],
                           i % p->out[2]};
        want[i] = biased ? db[o] : 0.0;
        for (int k = 0; k < icg * taps; ++k) {
            const int c = group * icg + k / taps, t = k % taps;
            const int tap[3] = {t / (p->k[1] * p->k[2]), t / p->k[2] % p->k[1], t % p->k[2]};
            int from = 0, inside = 1;
            for (int a = 0; a < 3; ++a) {
                const int v = at[a] * p->s[a] + tap[a] * p->d[a] - p->pad[a];
                inside = inside && v >= 0 && v < p->in[a];
                from = from * p->in[a] + v;
            }
            want[i] += inside ? dx[(image * p->ic + c) * in + from] * dw[o * icg * taps + k] : 0.0;
        }
    }
    aot_conv_f32_ref(y, x, w, biased ? bias : NULL, p);
    aot_conv_f64_ref(dy, dx, dw, biased ? db : NULL, &q);
    close_f32("float32", y, want, ny, 1e-6, 1e-5);
    close_f64("float64", dy, want, ny, 1e-13, 1e-13);
    check_free();
}

/* n, ic, oc, groups, in, out, kernel, strides, dilations, pads, activation */
static const aot_convtranspose_f32_params transposed[] = {
    {1, 1, 1, 1, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, 0, 0, 0},
    {2, 3, 5, 1, {1, 4, 5}, {1, 8, 11}, {1, 2, 3}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}, 0, 0, 0},
    {1, 17, 18, 1, {1, 3, 7}, {1, 5, 20}, {1, 3, 4}, {1, 2, 3}, {1, 1, 1}, {0, 1, 1}, 1, -1, 2},
    {1, 4, 6, 2, {1, 3, 9}, {1, 3, 18}, {1, 3, 4}, {1, 1, 2}, {1, 1, 1}, {0, 1, 1}, 5, 0, 0},
    {1, 2, 4, 1, {2, 3, 3}, {5, 5, 9}, {2, 3, 3}, {3, 1, 2}, {1, 1, 2}, {0, 0, 0}, 2, 0.25F, 0},
    {1, 6, 6, 6, {1, 1, 13}, {1, 1, 41}, {1, 1, 5}, {1, 1, 3}, {1, 1, 1}, {0, 0, 0}, 0, 0, 0},
};

/* Every input is added to the outputs that its taps reach. */
static void test_transposed(int number) {
    const aot_convtranspose_f32_params *p = &transposed[number];
    const int icg = p->ic / p->group, ocg = p->oc / p->group;
    const int in = p->in[0] * p->in[1] * p->in[2], out = p->out[0] * p->out[1] * p->out[2];
    const int taps = p->kernel[0] * p->kernel[1] * p->kernel[2];
    const int nx = p->n * p->ic * in, ny = p->n * p->oc * out;
    /* w[channel of x][channel of its group of y][taps], as ONNX has it */
    float *x = NEW(float, nx), *w = NEW(float, p->ic *ocg *taps), *bias = NEW(float, p->oc);
    float *y = NEW(float, ny), *plain = NEW(float, p->oc *taps *icg);
    double *want = NEW(double, ny), *size = NEW(double, ny);
    fill_f32(x, nx, -1.0, 1.0);
    fill_f32(w, p->ic * ocg * taps, -1.0, 1.0);
    fill_f32(bias, p->oc, -1.0, 1.0);
    for (int i = 0; i < ny; ++i) {
        want[i] = (double)bias[i / out % p->oc];
        size[i] = fabs(want[i]);
    }
    for (int i = 0; i < nx * ocg * taps; ++i) {
        const int from = i / (ocg * taps), c = from / in % p->ic, t = i % taps;
        const int o = c / icg * ocg + i / taps % ocg, pixel = from % in;
        const int at[3] = {pixel / (p->in[1] * p->in[2]), pixel / p->in[2] % p->in[1],
                           pixel % p->in[2]};
        const int tap[3] = {t / (p->kernel[1] * p->kernel[2]), t / p->kernel[2] % p->kernel[1],
                            t % p->kernel[2]};
        int to = 0, inside = 1;
        for (int a = 0; a < 3; ++a) {
            const int v = at[a] * p->stride[a] + tap[a] * p->dilation[a] - p->pad[a];
            inside = inside && v >= 0 && v < p->out[a];
            to = to * p->out[a] + v;
        }
        if (inside) {
            const double v = (double)x[from] * (double)w[(c * ocg + i / taps % ocg) * taps + t];
            to += (from / (in * p->ic) * p->oc + o) * out;
            want[to] += v;
            size[to] += fabs(v);
        }
    }
    check_case("transposed conv %d, plain", number);
    for (int i = 0; i < p->oc * taps * icg; ++i) {
        const int o = i / (taps * icg), c = o / ocg * icg + i % icg;
        plain[i] = w[(c * ocg + o % ocg) * taps + i / icg % taps];
    }
    aot_convtranspose_f32(y, x, plain, bias, p, 1, 1);
    close_conv("y", y, want, size, p->n, p->oc, out, 1, p->act, p->alpha, p->beta, 1e-6);
    if (V > 1 && p->group == 1) {
        float *packed = NEW(float, blocks(p->oc, V) * taps * p->ic * V);
        const float *xb = to_blocks(x, p->n, p->ic, in, V), *whole = padded_bias(bias, p->oc, V);
        float *yb = NEW(float, (ptrdiff_t)p->n *blocks(p->oc, V) * out * V);
        for (int i = 0; i < blocks(p->oc, V) * taps * p->ic * V; ++i) {
            const int c = i / V % p->ic, o = i / (V * p->ic * taps) * V + i % V;
            packed[i] = o < p->oc ? w[(c * ocg + o) * taps + i / (V * p->ic) % taps] : 0.0F;
        }
        check_case("transposed conv %d, blocked", number);
        aot_convtranspose_f32(yb, xb, packed, whole, p, V, V);
        close_conv("y", yb, want, size, p->n, p->oc, out, V, p->act, p->alpha, p->beta, 1e-6);
        (void)memset(y, 0xFF, (size_t)ny * sizeof *y);
        aot_convtranspose_f32(y, xb, packed, whole, p, V, 1);
        close_conv("plain y", y, want, size, p->n, p->oc, out, 1, p->act, p->alpha, p->beta, 1e-6);
    }
    check_free();
}

/* Every tap reads where its offset says: the four neighbours, zero beyond the image. */
static void test_deformable(int groups, int offset_groups, int masked, int biased) {
    const aot_deformconv_f32_params p = {
        2, 4, 6, 7, 6, 3, 4, 3, 2, 2, 2, 1, 2, 1, 2, groups, offset_groups};
    const int icg = 4 / groups, taps = 6, pixels = 12, ny = 2 * 6 * pixels;
    float *x = NEW(float, 2 * 4 * 42), *w = NEW(float, 6 * icg * taps), *bias = NEW(float, 6);
    float *offset = NEW(float, 2 * offset_groups * taps * 2 * pixels);
    float *mask = NEW(float, 2 * offset_groups * taps * pixels), *scratch = NEW(float, 4 * taps);
    float *y = NEW(float, ny);
    double *want = NEW(double, ny);
    check_case("deformable conv, groups %d and %d, mask %d, bias %d", groups, offset_groups, masked,
               biased);
    fill_f32(x, 2 * 4 * 42, -1.0, 1.0);
    fill_f32(w, 6 * icg * taps, -1.0, 1.0);
    fill_f32(bias, 6, -1.0, 1.0);
    fill_f32(offset, 2 * offset_groups * taps * 2 * pixels, -3.0, 3.0);
    fill_f32(mask, 2 * offset_groups * taps * pixels, 0.0, 1.0);
    offset[0] = 0.0F; /* a tap that stays on its pixel, and ones that leave the image */
    offset[1] = 1e9F;
    offset[2] = (float)NAN;
    for (int i = 0; i < ny; ++i) {
        const int image = i / (6 * pixels), o = i / pixels % 6, at = i % pixels;
        want[i] = biased ? (double)bias[o] : 0.0;
        for (int k = 0; k < icg * taps; ++k) {
            const int c = o / (6 / groups) * icg + k / taps, t = k % taps;
            const int own = (image * offset_groups + c / (4 / offset_groups)) * taps + t;
            const double row =
                (double)(at / 4 * 2 - 1 + t / 2) + (double)offset[own * 2 * pixels + at];
            const double column =
                (double)(at % 4 * 2 - 2 + t % 2 * 2) + (double)offset[(own * 2 + 1) * pixels + at];
            double v = 0.0;
            for (int q = 0; q < 42; ++q) {
                /* The weight of a pixel falls with its distance, from 1 to 0 one pixel away. */
                const double dy = 1.0 - fabs(row - q / 7), dx = 1.0 - fabs(column - q % 7);
                v += dy > 0.0 && dx > 0.0 ? dy * dx * (double)x[(image * 4 + c) * 42 + q] : 0.0;
            }
            v *= masked ? (double)mask[own * pixels + at] : 1.0;
            want[i] += v * (double)w[o * icg * taps + k];
        }
    }
    aot_deformconv_f32(y, x, w, offset, biased ? bias : NULL, masked ? mask : NULL, scratch, &p);
    close_f32("y", y, want, ny, 1e-6, 1e-5);
    check_free();
}

/* Blocks [3][2][2] of an image [5][4][6], every element added where it lies; integers wrap. */
#define COL2IM(SHORT, T)                                                                           \
    static void col2im_##SHORT(void) {                                                             \
        const aot_col2im_params p = {2,                                                            \
                                     {1, 1, 1, 5, 4, 6},                                           \
                                     {1, 1, 1, 3, 2, 2},                                           \
                                     {1, 1, 1, 2, 1, 3},                                           \
                                     {1, 1, 1, 1, 2, 1},                                           \
                                     {0, 0, 0, 1, 0, 2},                                           \
                                     {1, 1, 1, 3, 2, 3}};                                          \
        T x[432], y[240], want[240] = {0};                                                         \
        check_case("col2im of %s", #SHORT);                                                        \
        for (int i = 0; i < 432; ++i) {                                                            \
            const int plane = i / 216, tap = i / 18 % 12, step = i % 18;                           \
            const int a = step / 6 * 2 + tap / 4 - 1, b = step / 3 % 2 + tap / 2 % 2 * 2;          \
            const int c = step % 3 * 3 + tap % 2 - 2;                                              \
            x[i] = (T)check_integer(0, 250);                                                       \
            if (a >= 0 && a < 5 && b >= 0 && b < 4 && c >= 0 && c < 6) {                           \
                T *to = &want[((plane * 5 + a) * 4 + b) * 6 + c];                                  \
                *to = (T)(*to + x[i]);                                                             \
            }                                                                                      \
        }                                                                                          \
        aot_col2im_##SHORT(y, x, &p);                                                              \
        same_bytes("y", y, want, sizeof y); /* sums of small whole numbers are exact */            \
    }
COL2IM(f32, float)
COL2IM(f64, double)
COL2IM(u8, uint8_t)
COL2IM(u16, uint16_t)
COL2IM(u32, uint32_t)
COL2IM(u64, uint64_t)

int main(void) {
    for (int k = 0; k < (int)(2 * sizeof volumes / sizeof *volumes); ++k) {
        test_volume(k / 2, k % 2);
    }
    for (int k = 0; k < (int)(sizeof transposed / sizeof *transposed); ++k) {
        test_transposed(k);
    }
    for (int k = 0; k < 16; ++k) {
        test_deformable(k & 1 ? 2 : 1, k & 2 ? 2 : 1, k >> 2 & 1, k >> 3);
    }
    col2im_f32();
    col2im_f64();
    col2im_u8();
    col2im_u16();
    col2im_u32();
    col2im_u64();
    return check_end();
}
