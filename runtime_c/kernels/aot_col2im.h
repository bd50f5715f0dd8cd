/* SPDX-License-Identifier: MIT-0 */
/* Col2Im: blocks of an image, a column each, added up where they lie. */
#ifndef AOT_COL2IM_H
#define AOT_COL2IM_H

#include <stdint.h>

#include "aot/port.h"

#define AOT_COL2IM_AXES 6

typedef struct aot_col2im_params {
    int64_t planes;                    /* batch * channels */
    int32_t image[AOT_COL2IM_AXES];    /* extents of the image, 1 in front */
    int32_t block[AOT_COL2IM_AXES];    /* extents of a block */
    int32_t stride[AOT_COL2IM_AXES];   /* elements from block to block */
    int32_t dilation[AOT_COL2IM_AXES]; /* elements from one of a block to the next */
    int32_t pad[AOT_COL2IM_AXES];      /* before the image */
    int32_t steps[AOT_COL2IM_AXES];    /* blocks along each axis */
} aot_col2im_params;

/* The next place at[0..n) inside `extents`; 0 behind the last, where it starts again. */
static inline int aot_col2im_next(int32_t *at, const int32_t *extents, int n) {
    for (int k = n - 1; k >= 0; --k) {
        if (++at[k] < extents[k]) {
            return 1;
        }
        at[k] = 0;
    }
    return 0;
}

/* Where the element `tap` of the block `step` lies on axis k; outside the image there may be pads.
 */
static inline int64_t aot_col2im_place(const aot_col2im_params *p, int k, int32_t tap,
                                       int32_t step) {
    return (int64_t)step * p->stride[k] + (int64_t)tap * p->dilation[k] - p->pad[k];
}

/* The first element of the row of the image where the row `step` of blocks has its element `tap`;
   -1 where there is none. */
static inline int64_t aot_col2im_row(const aot_col2im_params *p, const int32_t *tap,
                                     const int32_t *step) {
    int64_t row = 0;
    for (int k = 0; k < AOT_COL2IM_AXES - 1; ++k) {
        const int64_t at = aot_col2im_place(p, k, tap[k], step[k]);
        if (at < 0 || at >= p->image[k]) {
            return -1;
        }
        row = row * p->image[k] + at;
    }
    return row * p->image[AOT_COL2IM_AXES - 1];
}

/* aot_col2im_<t>: y[planes][image] = 0, and x[planes][block][steps] added to it: the element t of
   the block s at s * stride + t * dilation - pad. Integers wrap. No scratch, not in place. */
#define AOT_COL2IM(name, type)                                                                     \
    typedef aot_col2im_params name##_params;                                                       \
    AOT_INLINE void name(type *y, const type *x, const name##_params *p) {                         \
        const int last = AOT_COL2IM_AXES - 1;                                                      \
        const int32_t wide = p->image[last];                                                       \
        int64_t size = 1;                                                                          \
        for (int k = 0; k <= last; ++k) {                                                          \
            size *= p->image[k];                                                                   \
        }                                                                                          \
        for (int64_t n = 0; n < p->planes; ++n, y += size) {                                       \
            int32_t tap[AOT_COL2IM_AXES] = {0, 0, 0, 0, 0, 0};                                     \
            for (int64_t i = 0; i < size; ++i) {                                                   \
                y[i] = 0;                                                                          \
            }                                                                                      \
            do {                                                                                   \
                int32_t step[AOT_COL2IM_AXES] = {0, 0, 0, 0, 0, 0};                                \
                do {                                                                               \
                    const int64_t row = aot_col2im_row(p, tap, step);                              \
                    for (int32_t s = 0; row >= 0 && s < p->steps[last]; ++s) {                     \
                        const int64_t at = aot_col2im_place(p, last, tap[last], s);                \
                        if (at >= 0 && at < wide) {                                                \
                            y[row + at] = (type)(y[row + at] + x[s]);                              \
                        }                                                                          \
                    }                                                                              \
                    x += p->steps[last];                                                           \
                } while (aot_col2im_next(step, p->steps, last));                                   \
            } while (aot_col2im_next(tap, p->block, AOT_COL2IM_AXES));                             \
        }                                                                                          \
    }

AOT_COL2IM(aot_col2im_f32, float)
AOT_COL2IM(aot_col2im_f64, double)
AOT_COL2IM(aot_col2im_u8, uint8_t)
AOT_COL2IM(aot_col2im_u16, uint16_t)
AOT_COL2IM(aot_col2im_u32, uint32_t)
AOT_COL2IM(aot_col2im_u64, uint64_t)

#endif /* AOT_COL2IM_H */
