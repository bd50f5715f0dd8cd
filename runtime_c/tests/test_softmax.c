/* SPDX-License-Identifier: MIT-0 */
/* Softmax and its logarithm along one axis: exp(x) over the sum of exp(x), in doubles. */
#include "check.h"

#include "aot_softmax_f32.h"
#include "aot_softmax_f64.h"

static const int shapes[][3] = {{1, 1, 1},  {2, 7, 1},  {3, 16, 1}, {1, 65, 1},
                                {2, 1, 5},  {2, 5, 16}, {37, 2, 1}, {19, 3, 1},
                                {1, 9, 19}, {3, 4, 3},  {2, 33, 8}, {0, 3, 2}};

/* What the axis through `x` (step `inner`) becomes. A line of -inf and one with NaN is NaN. */
static void formula(double *want, const double *x, ptrdiff_t n, ptrdiff_t inner, int log_of_it) {
    double sum = 0.0, top = -(double)INFINITY;
    for (ptrdiff_t i = 0; i < n; ++i) {
        top = fmax(top, x[i * inner]);
    }
    for (ptrdiff_t i = 0; i < n; ++i) {
        sum += exp(x[i * inner] - top);
    }
    for (ptrdiff_t i = 0; i < n; ++i) {
        const double v = x[i * inner] - top;
        want[i * inner] = log_of_it ? v - log(sum) : exp(v) / sum;
    }
}

/* KIND 0: small numbers, 1: some -inf, 2: large ones, 3: a line of -inf, 4: NaN among them. */
static void test(const int *shape, int log_of_it, int kind) {
    const ptrdiff_t axis = shape[1], inner = shape[2], n = shape[0] * axis * inner;
    const aot_softmax_f32_params p = {shape[0], axis, inner};
    const aot_softmax_f64_params p64 = {shape[0], axis, inner};
    float *x = NEW(float, n), *y = NEW(float, n);
    double *wide = NEW(double, n), *y64 = NEW(double, n), *want = NEW(double, n);
    check_case("%s of [%d, %d, %d], kind %d", log_of_it ? "log-softmax" : "softmax", shape[0],
               shape[1], shape[2], kind);
    fill_f32(x, n, kind == 2 ? -2e4 : -5.0, kind == 2 ? 2e4 : 5.0);
    for (ptrdiff_t i = 0; i < n; ++i) {
        const int line = i / inner % axis == 0;
        x[i] = (kind == 1 && !line && i % 3 == 0) || (kind == 3 && i < axis * inner)
                   ? -(float)INFINITY
               : kind == 4 && i % 11 == 3 ? (float)NAN
                                          : x[i];
        wide[i] = (double)x[i];
    }
    for (ptrdiff_t o = 0; o < shape[0]; ++o) {
        for (ptrdiff_t j = 0; j < inner; ++j) {
            const ptrdiff_t at = o * axis * inner + j;
            formula(want + at, wide + at, axis, inner, log_of_it);
        }
    }
    /* The constant is known where the kernel is called, as in bundles. */
    if (log_of_it) {
        aot_softmax_f32(y, x, &p, 1);
        aot_softmax_f64(y64, wide, &p64, 1);
        aot_softmax_f32(x, x, &p, 1);
    } else {
        aot_softmax_f32(y, x, &p, 0);
        aot_softmax_f64(y64, wide, &p64, 0);
        aot_softmax_f32(x, x, &p, 0);
    }
    close_f32("y", y, want, n, 2e-6, log_of_it ? 2e-6 : 1e-44);
    close_f32("y in place", x, want, n, 2e-6, log_of_it ? 2e-6 : 1e-44);
    close_f64("y of float64", y64, want, n, 1e-12, 1e-12);
    check_free();
}

int main(void) {
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s) {
        for (int k = 0; k < 10; ++k) {
            test(shapes[s], k % 2, k / 2);
        }
    }
    return check_end();
}
