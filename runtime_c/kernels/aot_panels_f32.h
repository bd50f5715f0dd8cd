/* SPDX-License-Identifier: MIT-0 */
/* Weights that are known at run time only, packed into the panels that a kernel reads; float32.
 *
 * y [ceil(sections * padded / PANEL)][outer][inner][PANEL], PANEL columns side by side; column
 * s * padded + i, element (a, b) is x[(s * columns + i) * row + a * outer_step + b * inner_step],
 * plus the same element of `plus` (or NULL) in the first plus_sections sections. Columns that stand
 * for nothing are zero. Not in place. No scratch.
 */
#ifndef AOT_PANELS_F32_H
#define AOT_PANELS_F32_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "aot/port.h"

typedef struct {
    int32_t sections, columns, padded, panels;
    int32_t outer, inner, plus_sections;
    int64_t row, outer_step, inner_step;
} aot_panels_f32_params;

AOT_INLINE void aot_panels_f32(float *y, const float *x, const float *plus,
                               const aot_panels_f32_params *p, int PANEL) {
    const ptrdiff_t size = (ptrdiff_t)p->outer * p->inner * PANEL;
    int32_t s, i, a, b;
    (void)memset(y, 0, (size_t)(p->panels * size) * sizeof *y);
    for (s = 0; s < p->sections; ++s) {
        for (i = 0; i < p->columns; ++i) {
            const int32_t column = s * p->padded + i;
            float *to = y + (column / PANEL * size + column % PANEL);
            const ptrdiff_t from = (ptrdiff_t)((s * p->columns + i) * p->row);
            const int both = plus != NULL && s < p->plus_sections;
            for (a = 0; a < p->outer; ++a) {
                for (b = 0; b < p->inner; ++b, to += PANEL) {
                    const ptrdiff_t at = from + (ptrdiff_t)(a * p->outer_step + b * p->inner_step);
                    *to = both ? x[at] + plus[at] : x[at];
                }
            }
        }
    }
}

#endif /* AOT_PANELS_F32_H */
