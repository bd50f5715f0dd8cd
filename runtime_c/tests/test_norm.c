/* SPDX-License-Identifier: MIT-0 */
/* Normalisations by statistics of lines, groups and neighbours, in doubles. */
#include "check.h"

#include "aot_norm_f32.h"

/* y = (x - mean) / sqrt(variance + epsilon) * scale + bias; without the mean if RMS. */
static void test_layer(int rows, int n, int rms, int biased, int shown) {
    const aot_layernorm_f32_params p = {rows, n, 1e-3F};
    float *x = NEW(float, rows *n), *scale = NEW(float, n), *bias = NEW(float, n);
    float *y = NEW(float, rows *n), *mean = NEW(float, rows), *inverse = NEW(float, rows);
    double *want = NEW(double, rows *n), *means = NEW(double, rows), *inverses = NEW(double, rows);
    check_case("layer norm [%d, %d], RMS %d, BIAS %d, statistics %d", rows, n, rms, biased, shown);
    fill_f32(x, rows * n, 1.0, 5.0);
    fill_f32(scale, n, -2.0, 2.0);
    fill_f32(bias, n, -2.0, 2.0);
    for (int r = 0; r < rows; ++r) {
        double sum = 0.0, squares = 0.0;
        for (int i = 0; i < n; ++i) {
            sum += (double)x[r * n + i];
        }
        means[r] = rms ? 0.0 : sum / n;
        for (int i = 0; i < n; ++i) {
            squares += pow((double)x[r * n + i] - means[r], 2);
        }
        inverses[r] = 1.0 / sqrt(squares / n + (double)1e-3F);
        for (int i = 0; i < n; ++i) {
            want[r * n + i] = ((double)x[r * n + i] - means[r]) * inverses[r] * (double)scale[i] +
                              (biased ? (double)bias[i] : 0.0);
        }
    }
    aot_layernorm_f32(y, mean, inverse, x, scale, bias, &p, rms, biased, shown, shown);
    close_f32("y", y, want, rows * n, 1e-5, 1e-5);
    if (shown) {
        close_f32("mean", mean, means, rows, 1e-6, 1e-6);
        close_f32("1 / deviation", inverse, inverses, rows, 1e-5, 0.0);
    } else {
        CHECK(isnan(mean[0]) && isnan(inverse[0]));
    }
    aot_layernorm_f32(x, mean, inverse, x, scale, bias, &p, rms, biased, 0, 0);
    close_f32("y in place", x, want, rows * n, 1e-5, 1e-5);
    check_free();
}

/* The same over the channels of a blocked tensor: whole vectors of pixels and pixels alone. */
static void test_channels(int n, int c, int s, int rms, int biased) {
    const int blocks = (c + AOT_VLEN - 1) / AOT_VLEN, plane = s * AOT_VLEN,
              all = n * blocks * plane;
    const aot_channelnorm_f32_params p = {n, c, s, plane, (int64_t)blocks * plane, 1e-3F};
    float *x = NEW(float, all), *y = NEW(float, all);
    float *scale = NEW(float, blocks *AOT_VLEN), *bias = NEW(float, blocks *AOT_VLEN);
    double *want = NEW(double, all);
    check_case("channel norm [%d, %d, %d], RMS %d, BIAS %d", n, c, s, rms, biased);
    fill_f32(x, all, 1.0, 5.0);
    fill_f32(scale, c, -2.0, 2.0);
    fill_f32(bias, c, -2.0, 2.0);
    for (int i = 0; i < n * s; ++i) {
        const int at = i / s * blocks * plane + i % s * AOT_VLEN;
        double sum = 0.0, squares = 0.0;
        for (int k = 0; k < c; ++k) {
            sum += (double)x[at + k / AOT_VLEN * plane + k % AOT_VLEN];
        }
        sum = rms ? 0.0 : sum / c;
        for (int k = 0; k < c; ++k) {
            squares += pow((double)x[at + k / AOT_VLEN * plane + k % AOT_VLEN] - sum, 2);
        }
        for (int k = 0; k < c; ++k) {
            const int to = at + k / AOT_VLEN * plane + k % AOT_VLEN;
            want[to] =
                ((double)x[to] - sum) / sqrt(squares / c + (double)1e-3F) * (double)scale[k] +
                (biased ? (double)bias[k] : 0.0);
        }
        for (int k = c; k < blocks * AOT_VLEN; ++k) { /* lanes without a channel hold anything */
            const int to = at + k / AOT_VLEN * plane + k % AOT_VLEN;
            x[to] = NAN;
            want[to] = NAN;
        }
    }
    aot_channelnorm_f32(y, x, scale, bias, &p, rms, biased);
    aot_channelnorm_f32(x, x, scale, bias, &p, rms, biased);
    for (int i = 0; i < all; ++i) {
        if (isnan(want[i])) {
            want[i] = 0.0;
            x[i] = 0.0F;
            y[i] = 0.0F;
        }
    }
    close_f32("y", y, want, all, 1e-5, 1e-5);
    close_f32("y in place", x, want, all, 1e-5, 1e-5);
    check_free();
}

/* The mean and 1 / sqrt(variance + epsilon) of `parts` pieces of n numbers, `step` apart. */
static void statistics(const float *x, int parts, int step, int n, double epsilon, double *mean,
                       double *deviation) {
    double sum = 0.0, squares = 0.0;
    for (int i = 0; i < parts * n; ++i) {
        sum += (double)x[i / n * step + i % n];
    }
    *mean = sum / (parts * n);
    for (int i = 0; i < parts * n; ++i) {
        squares += pow((double)x[i / n * step + i % n] - *mean, 2);
    }
    *deviation = sqrt(squares / (parts * n) + epsilon);
}

static void test_group(int n, int groups, int channels, int s) {
    const aot_groupnorm_f32_params p = {n, groups, channels, s, 1e-3F};
    const aot_mvn_f32_params q = {n, groups, (int64_t)channels * s};
    const int line = channels * s, all = n * groups * line;
    float *x = NEW(float, all), *y = NEW(float, all), *z = NEW(float, all);
    float *scale = NEW(float, groups *channels), *bias = NEW(float, groups *channels);
    double *want = NEW(double, all), *mvn = NEW(double, all);
    check_case("group norm [%d, %d, %d, %d]", n, groups, channels, s);
    fill_f32(x, all, 1.0, 5.0);
    fill_f32(scale, groups * channels, -2.0, 2.0);
    fill_f32(bias, groups * channels, -2.0, 2.0);
    for (int i = 0; i < all; ++i) {
        const int group = i / line % groups, k = i / s % (groups * channels);
        double mean, deviation;
        statistics(x + i / line * line, 1, 0, line, (double)1e-3F, &mean, &deviation);
        want[i] = ((double)x[i] - mean) / deviation * (double)scale[k] + (double)bias[k];
        statistics(x + group * line, n, groups * line, line, 0.0, &mean, &deviation);
        mvn[i] = ((double)x[i] - mean) / (deviation + 1e-9);
    }
    aot_groupnorm_f32(y, x, scale, bias, &p);
    close_f32("group norm", y, want, all, 1e-5, 1e-5);
    if (n * line > 1) { /* of one number the mean is itself, and what is left is rounding */
        aot_mvn_f32(z, x, &q);
        close_f32("mean variance norm", z, mvn, all, 1e-5, 1e-5);
    }
    aot_groupnorm_f32(x, x, scale, bias, &p);
    close_f32("group norm in place", x, want, all, 1e-5, 1e-5);
    check_free();
}

static void test_lp(int outer, int axis, int inner) {
    const aot_lpnorm_f32_params p = {outer, axis, inner};
    const int n = outer * axis * inner;
    float *x = NEW(float, n), *y = NEW(float, n);
    double *want = NEW(double, n);
    for (int P = 1; P <= 2; ++P) {
        check_case("L%d norm [%d, %d, %d]", P, outer, axis, inner);
        fill_f32(x, n, -2.0, 2.0);
        for (int i = 0; i < axis; ++i) {
            x[i * inner] = 0.0F; /* a line whose norm is 0 */
        }
        for (int i = 0; i < n; ++i) {
            const float *line = x + i / (axis * inner) * axis * inner + i % inner;
            double sum = 0.0;
            for (int k = 0; k < axis; ++k) {
                sum += pow(fabs((double)line[k * inner]), P);
            }
            want[i] = sum > 0.0 ? (double)x[i] / pow(sum, 1.0 / P) : 0.0;
        }
        aot_lpnorm_f32(y, x, &p, P);
        close_f32("y", y, want, n, 1e-6, 0.0);
    }
    check_free();
}

static void test_lrn(int n, int c, int s, int size) {
    const aot_lrn_f32_params p = {n, c, s, size, 0.02F, 0.75F, 1.5F};
    const int all = n * c * s;
    float *x = NEW(float, all), *y = NEW(float, all);
    double *want = NEW(double, all);
    check_case("local response norm [%d, %d, %d], window %d", n, c, s, size);
    fill_f32(x, all, -5.0, 5.0);
    for (int i = 0; i < all; ++i) {
        const int channel = i / s % c;
        double sum = 0.0;
        for (int k = 0; k < size; ++k) {
            const int other = channel - (size - 1) / 2 + k;
            sum += other >= 0 && other < c ? pow((double)x[i + (other - channel) * s], 2) : 0.0;
        }
        want[i] = (double)x[i] / pow(1.5 + (double)0.02F * sum, 0.75);
    }
    aot_lrn_f32(y, x, &p);
    close_f32("y", y, want, all, 2e-6, 0.0);
    check_free();
}

int main(void) {
    static const int lengths[] = {1, 2, 7, 16, 17, 33, 100, 300};
    for (int k = 0; k < 64; ++k) {
        test_layer(1 + k % 3, lengths[k / 8], k & 1, k >> 1 & 1, k >> 2 & 1);
    }
    for (int k = 0; k < 64; ++k) {
        test_channels(1 + k % 2, lengths[k / 8], lengths[k % 8], k & 1, k >> 1 & 1);
    }
    test_group(1, 1, 1, 1);
    test_group(2, 3, 1, 17);
    test_group(3, 2, 4, 16);
    test_group(2, 1, 5, 33);
    test_group(1, 7, 2, 3);
    test_lp(1, 1, 1);
    test_lp(2, 5, 3);
    test_lp(1, 40, 1);
    test_lrn(1, 1, 1, 1);
    test_lrn(2, 9, 17, 5);
    test_lrn(1, 6, 32, 4);
    test_lrn(2, 3, 5, 9);
    return check_end();
}
