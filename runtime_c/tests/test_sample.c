/* SPDX-License-Identifier: MIT-0 */
/* Values between pixels: Resize by tables, GridSample, RoiAlign. */
#include "elements.h"

#include "aot_gridsample_f32.h"
#include "aot_resize.h"
#include "aot_roialign_f32.h"

/* Elements at the positions of tables, one of which is outside. */
static void test_nearest(int E) {
    const aot_resize_nearest_params p = {2, {2, 3, 4}, {3, 2, 5}, 7, 0, 2, 210, 168};
    static const int32_t table[10] = {1, 0, 1, 2, 0, 3, -1, 0, 0, 2}; /* axis after axis */
    uint8_t *x = some_elements(2 * 24 * 7, E), *value = some_elements(1, E);
    uint8_t *y = NEW(uint8_t, 420 * E), *want = NEW(uint8_t, 420 * E);
    check_case("nearest of %d bytes", E);
    for (int i = 0; i < 420; ++i) {
        const int a = table[i / 70 % 3], b = table[3 + i / 35 % 2], c = table[5 + i / 7 % 5];
        const int from = (((i / 210 * 2 + a) * 3 + b) * 4 + c) * 7 + i % 7;
        put(want, i, c < 0 ? value : x, c < 0 ? 0 : from, E);
    }
    aot_resize_nearest(y, x, table, value, &p, E);
    same_bytes("y", y, want, (size_t)(420 * E));
    check_free();
}

/* Sums of taps along one axis; output 1 is outside. */
static void test_axis(int inner, int taps) {
    const aot_resize_axis_f32_params p = {3, 0, 4, inner, taps, -7.5F, 4 * inner, 5 * inner, 0};
    float *x = NEW(float, 15 * inner), *w = NEW(float, 4 * taps), *y = NEW(float, 12 * inner);
    int32_t *at = NEW(int32_t, 4 * taps);
    check_case("axis of %d elements, %d taps", inner, taps);
    fill_f32(x, 15 * inner, -2.0, 2.0);
    fill_f32(w, 4 * taps, -2.0, 2.0);
    fill_s32(at, 4 * taps, 0, 4);
    at[taps] = -1;
    aot_resize_axis_f32(y, x, at, w, &p, 0);
    for (int i = 0; i < 12 * inner; ++i) {
        const int o = i / inner % 4;
        double want = o == 1 ? -7.5 : 0.0;
        for (int t = 0; t < taps && o != 1; ++t) {
            const int from = (i / (4 * inner) * 5 + at[o * taps + t]) * inner + i % inner;
            want += (double)w[o * taps + t] * (double)x[from];
        }
        close_at("y", i, (double)y[i], want, 1e-6, 2e-6);
    }
    check_free();
}

/* What a place beyond the edges of the outer elements (with ALIGN beyond their centres) means:
 * PADDING 1 is the centre of the outer element, as in ONNX's definition; PADDING 2 mirrors at the
 * centres or the edges of the outer elements until the place is inside. */
static double padded(double v, int n, int padding, int align) {
    const double low = align ? 0.0 : -0.5, high = align ? n - 1.0 : n - 0.5;
    if (padding == 1 && (v < low || v > high)) {
        return fmin(fmax(v, 0.0), n - 1.0);
    }
    while (padding == 2 && (v < low || v > high)) {
        if (high <= low) {
            return low;
        }
        v = v < low ? 2 * low - v : 2 * high - v;
    }
    return v;
}

/* The weight of an element at a distance: 1 or 0 by rounding, a tent, or Keys' cubic of -0.75. */
static double weight(double distance, int mode) {
    const double d = fabs(distance), a = -0.75;
    return mode == 1 ? fmax(0.0, 1.0 - d)
           : d <= 1  ? ((a + 2) * d - (a + 3)) * d * d + 1
           : d < 2   ? a * (((d - 5) * d + 8) * d - 4)
                     : 0.0;
}

static double sampled(const float *x, const int32_t *in, const float *grid, int rank, int mode,
                      int padding, int align) {
    double sum = 0.0, place[3] = {0.0, 0.0, 0.0};
    int first[3] = {0, 0, 0}, count[3] = {1, 1, 1};
    for (int k = 0; k < rank; ++k) {
        const int axis = 2 - k, n = in[axis];
        const double g = (double)grid[k] + 1.0;
        double v = align ? g / 2 * (n - 1) : (g * n - 1) / 2;
        v = mode == 0 ? nearbyint(v) : v;
        v = padded(v, n, padding, align);
        place[axis] = v;
        first[axis] = (int)floor(v) - (mode == 2);
        count[axis] = mode == 0 ? 1 : mode == 1 ? 2 : 4;
    }
    for (int t = 0; t < count[0] * count[1] * count[2]; ++t) {
        const int tap[3] = {t / (count[1] * count[2]), t / count[2] % count[1], t % count[2]};
        double w = 1.0;
        int at = 0;
        for (int a = 0; a < 3; ++a) {
            const int i = first[a] + tap[a];
            const double inside = padded(i, in[a], padding, align);
            w *= 2 - a >= rank || mode == 0 ? 1.0 : weight(place[a] - i, mode);
            w *= padding == 0 && (i < 0 || i >= in[a]) ? 0.0 : 1.0;
            at = at * in[a] + (int)fmin(fmax(inside, 0.0), in[a] - 1.0);
        }
        sum += w != 0.0 ? w * (double)x[at] : 0.0;
    }
    return sum;
}

static void test_grid(int rank, int mode, int padding, int align) {
    static const int32_t extents[3][3] = {{1, 1, 7}, {1, 5, 7}, {3, 4, 5}};
    const int32_t *in = extents[rank - 1];
    const aot_gridsample_f32_params p = {2, 3, 40, rank, {in[0], in[1], in[2]}};
    const int size = in[0] * in[1] * in[2];
    float *x = NEW(float, 6 * size), *grid = NEW(float, 80 * rank), *y = NEW(float, 240);
    check_case("grid sample, rank %d, MODE %d, PADDING %d, ALIGN %d", rank, mode, padding, align);
    fill_f32(x, 6 * size, -2.0, 2.0);
    fill_f32(grid, 80 * rank, -2.6, 2.6);
    for (int k = 0; k < rank; ++k) {
        grid[k] = -1.0F;
        grid[rank + k] = 1.0F;
        grid[2 * rank + k] = 0.0F;
    }
    aot_gridsample_f32(y, x, grid, &p, mode, padding, align);
    for (int i = 0; i < 240; ++i) {
        const float *g = grid + (i / 120 * 40 + i % 40) * rank;
        const double want = sampled(x + i / 40 * size, in, g, rank, mode, padding, align);
        close_at("y", i, (double)y[i], want, 1e-4, 2e-5);
    }
    check_free();
}

/* x at (row, column): its four neighbours, each weight times value; 0 beyond by more than a pixel.
 */
static void neighbours(double four[4], const float *x, int h, int w, double row, double column) {
    const double r = fmin(fmax(row, 0.0), h - 1.0), c = fmin(fmax(column, 0.0), w - 1.0);
    const int top = (int)r, left = (int)c;
    for (int k = 0; k < 4; ++k) {
        const int i = top + k / 2 < h ? top + k / 2 : h - 1;
        const int j = left + k % 2 < w ? left + k % 2 : w - 1;
        const double dy = k / 2 ? r - top : 1.0 - (r - top),
                     dx = k % 2 ? c - left : 1.0 - (c - left);
        const int seen = row >= -1.0 && row <= h && column >= -1.0 && column <= w;
        four[k] = seen ? dy * dx * (double)x[i * w + j] : 0.0;
    }
}

static void test_regions(int ratio, int half, int max) {
    enum { N = 2, C = 2, H = 9, W = 12, R = 6, PH = 3, PW = 2 };
    const aot_roialign_f32_params p = {N, C, H, W, R, PH, PW, 0.5F};
    static const float rois[R][4] = {
        {2, 3, 17, 15}, {0, 0, 4, 2}, {-6, -5, 30, 26}, {10, 10, 10, 10}, {1.3F, 2.7F, 9.1F, 16.4F},
        {4, 4, 9, 9}};
    static const int64_t batch[R] = {0, 1, 1, 0, 1, 5};
    float *x = NEW(float, N *C *H *W), *y = NEW(float, R *C *PH *PW);
    check_case("regions, RATIO %d, HALF %d, MAX %d", ratio, half, max);
    fill_f32(x, N * C * H * W, max ? 0.1 : -2.0, 2.0);
    aot_roialign_f32(y, x, &rois[0][0], batch, &p, ratio, half, max);
    for (int i = 0; i < R * C * PH * PW; ++i) {
        const int r = i / (C * PH * PW), c = i / (PH * PW) % C;
        const float *plane = x + ((batch[r] < N ? (int)batch[r] : 0) * C + c) * H * W;
        const double x1 = (double)rois[r][0] / 2 - half * 0.5,
                     y1 = (double)rois[r][1] / 2 - half * 0.5;
        double wide = (double)rois[r][2] / 2 - half * 0.5 - x1;
        double high = (double)rois[r][3] / 2 - half * 0.5 - y1, sum = 0.0, most = -1e30;
        int rows, columns;
        wide = half ? wide : fmax(wide, 1.0);
        high = half ? high : fmax(high, 1.0);
        rows = ratio > 0 ? ratio : (int)ceil(high / PH);
        columns = ratio > 0 ? ratio : (int)ceil(wide / PW);
        for (int k = 0; k < rows * columns; ++k) {
            double four[4];
            const double row = y1 + (i / PW % PH + (k / columns + 0.5) / rows) * high / PH;
            const double column = x1 + (i % PW + (k % columns + 0.5) / columns) * wide / PW;
            neighbours(four, plane, H, W, row, column);
            sum += four[0] + four[1] + four[2] + four[3];
            most = fmax(most, fmax(fmax(four[0], four[1]), fmax(four[2], four[3])));
        }
        most = rows * columns > 0 ? most : 0.0;
        sum /= rows * columns > 1 ? rows * columns : 1;
        close_at("y", i, (double)y[i], batch[r] >= N ? 0.0 : max ? most : sum, 1e-4, 1e-5);
    }
    check_free();
}

int main(void) {
    for (int E = 1; E <= 8; E *= 2) {
        test_nearest(E);
    }
    for (int inner = 1; inner < 40; inner += 5) {
        test_axis(inner, 1);
        test_axis(inner, 2);
        test_axis(inner, 5);
    }
    for (int k = 0; k < 54; ++k) {
        /* ONNX defines no cubic sampling of volumes. */
        const int rank = 1 + k / 18, mode = k / 6 % 3;
        test_grid(rank, mode, k / 2 % 3, k % 2);
    }
    for (int k = 0; k < 12; ++k) {
        test_regions(k / 4, k % 2, k / 2 % 2);
    }
    return check_end();
}
