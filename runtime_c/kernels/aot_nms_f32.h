/* SPDX-License-Identifier: MIT-0 */
/* Non-maximum suppression. */
#ifndef AOT_NMS_F32_H
#define AOT_NMS_F32_H

#include <stdint.h>
#include <string.h>

#include "aot/port.h"

typedef struct aot_nms_f32_params {
    int32_t batch;   /* images */
    int32_t classes; /* per image */
    int32_t boxes;   /* per image */
    int32_t limit;   /* the most boxes of a class that y has room for */
    int32_t center;  /* 1: a box is (x, y, width, height) of its middle, 0: two corners */
} aot_nms_f32_params;

/* The corners of a box: low y, low x, high y, high x. */
AOT_INLINE void aot_nms_corners(float c[4], const float *b, int center) {
    if (center != 0) {
        const float w = b[2] / 2.0f, h = b[3] / 2.0f;
        c[0] = b[1] - h;
        c[1] = b[0] - w;
        c[2] = b[1] + h;
        c[3] = b[0] + w;
    } else {
        c[0] = b[0] < b[2] ? b[0] : b[2];
        c[1] = b[1] < b[3] ? b[1] : b[3];
        c[2] = b[0] < b[2] ? b[2] : b[0];
        c[3] = b[1] < b[3] ? b[3] : b[1];
    }
}

/* Whether the boxes overlap by more than `iou` of their union. A box of no area overlaps nothing.
 */
AOT_INLINE int aot_nms_overlap(const float *a, const float *b, float iou, int center) {
    float p[4], q[4], y0, x0, y1, x1, both, one, other, all;
    aot_nms_corners(p, a, center);
    aot_nms_corners(q, b, center);
    y0 = p[0] > q[0] ? p[0] : q[0];
    x0 = p[1] > q[1] ? p[1] : q[1];
    y1 = p[2] < q[2] ? p[2] : q[2];
    x1 = p[3] < q[3] ? p[3] : q[3];
    if (!(y1 > y0) || !(x1 > x0)) {
        return 0;
    }
    both = (y1 - y0) * (x1 - x0);
    one = (p[2] - p[0]) * (p[3] - p[1]);
    other = (q[2] - q[0]) * (q[3] - q[1]);
    all = one + other - both;
    if (!(one > 0.0f) || !(other > 0.0f) || !(all > 0.0f)) {
        return 0;
    }
    return both / all > iou;
}

/* Whether box i is chosen before box j: the higher score, then the lower index; NaN is lowest. */
AOT_INLINE int aot_nms_before(const float *s, int64_t i, int64_t j) {
    if (s[i] > s[j] || s[i] < s[j]) {
        return s[i] > s[j];
    }
    if ((s[i] != s[i]) != (s[j] != s[j])) {
        return s[i] == s[i];
    }
    return i < j;
}

AOT_INLINE void aot_nms_sink(int64_t *v, int64_t root, int64_t n, const float *s) {
    for (;;) {
        int64_t child = 2 * root + 1, t;
        if (child >= n) {
            return;
        }
        if (child + 1 < n && aot_nms_before(s, v[child + 1], v[child])) {
            ++child;
        }
        if (!aot_nms_before(s, v[child], v[root])) {
            return;
        }
        t = v[root];
        v[root] = v[child];
        v[child] = t;
        root = child;
    }
}

/* The first `count` boxes of one class: writes at most `most` rows (image, class, box); gives how
   many. `heap` [count] is scratch. */
AOT_INLINE int64_t aot_nms_class(int64_t *y, const float *boxes, const float *scores, int64_t image,
                                 int64_t which, int64_t count, int64_t most, float iou,
                                 const float *threshold, int64_t *heap,
                                 const aot_nms_f32_params *p) {
    int64_t n = 0, taken = 0;
    for (int64_t i = 0; i < count; ++i) {
        if (threshold == NULL || scores[i] > *threshold) {
            heap[n++] = i;
        }
    }
    for (int64_t i = n / 2 - 1; i >= 0; --i) {
        aot_nms_sink(heap, i, n, scores);
    }
    while (n > 0 && taken < most) {
        const int64_t box = heap[0];
        int good = 1;
        heap[0] = heap[--n];
        aot_nms_sink(heap, 0, n, scores);
        for (int64_t k = 0; k < taken && good; ++k) {
            good = !aot_nms_overlap(boxes + 4 * box, boxes + 4 * y[3 * k + 2], iou, p->center);
        }
        if (good != 0) {
            y[3 * taken] = image;
            y[3 * taken + 1] = which;
            y[3 * taken + 2] = box;
            ++taken;
        }
    }
    return taken;
}

/* y [batch * classes * limit][3] int64 = (image, class, box) of the chosen boxes, n [1] = how many;
   padding is 0. boxes [batch][boxes][4], scores [batch][classes][boxes]; most (int64, NULL: 0), iou
   (NULL: 0) and threshold (NULL: none) hold one element. shape (NULL: the bounds) holds how many
   images, classes and boxes there are of those that boxes and scores have room for. A box is
   chosen, in the order of scores, if it scores above the threshold and overlaps none chosen before
   by more than iou. NaN is above no threshold and comes last where there is none. heap [boxes] is
   scratch. Not in place. */
AOT_INLINE void aot_nms_f32(int64_t *y, int64_t *n, const float *boxes, const float *scores,
                            const int64_t *most, const float *iou, const float *threshold,
                            const int64_t *shape, int64_t *heap, const aot_nms_f32_params *p) {
    const int64_t batch = shape ? shape[0] : p->batch, classes = shape ? shape[1] : p->classes;
    const int64_t count = shape ? shape[2] : p->boxes;
    const int64_t wanted = most ? *most : 0;
    const int64_t limit = wanted < 0 ? 0 : (wanted < p->limit ? wanted : p->limit);
    const int64_t room = (int64_t)p->batch * p->classes * p->limit;
    int64_t total = 0;
    if (room > 0) {
        (void)memset(y, 0, (size_t)room * 3 * sizeof *y);
    }
    for (int64_t b = 0; b < batch; ++b) {
        for (int64_t c = 0; c < classes; ++c) {
            total += aot_nms_class(y + 3 * total, boxes + b * p->boxes * 4,
                                   scores + (b * p->classes + c) * p->boxes, b, c, count, limit,
                                   iou ? *iou : 0.0f, threshold, heap, p);
        }
    }
    *n = total;
}

#endif
