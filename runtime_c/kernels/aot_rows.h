/* SPDX-License-Identifier: MIT-0 */
/* Where the rows of an image are, for kernels that read windows of rows.
 *
 * AOT_AT(x, row, offset, linear): byte `offset` of row `row` of the image that x points at. Rows
 * follow each other, and `linear` says where that is. A file that makes results row by row defines
 * AOT_ROW_TABLES: x is then the address of a table of pointers to rows, of which only those of the
 * image are read. `linear` is the expression of the one case, x and row are those of the other.
 * AOT_AT_F32 is the same for float32, `offset` in floats.
 */
#ifndef AOT_ROWS_H
#define AOT_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "aot/port.h"

#ifdef AOT_ROW_TABLES
#define AOT_ROWS_APART 1
#ifndef AOT_ROW_BATCH
#define AOT_ROW_BATCH 1 /* rows that a call makes at most */
#endif
/* sizeof, which computes nothing, uses names that only `linear` has. */
#define AOT_AT(x, row, offset, linear)                                                             \
    ((void)sizeof(linear), ((const int8_t *const *)(const void *)(x))[row] + (ptrdiff_t)(offset))
#define AOT_AT_F32(x, row, offset, linear)                                                         \
    ((const float *)(const void *)AOT_AT(x, row, 0, linear) + (ptrdiff_t)(offset))
#else
#define AOT_ROWS_APART 0
#define AOT_ROW_BATCH 2 /* or more */
#define AOT_AT(x, row, offset, linear) (linear)
#define AOT_AT_F32(x, row, offset, linear) (linear)
#endif

#ifdef AOT_ROW_TABLES

/* Of a window of rows: how many there are from its first to its last one in the image, and how many
 * it has above the image. */
typedef struct {
    int32_t rows, above;
} aot_row_span;

/* The part of the rows first .. first + span - 1 that is in an image of `height` rows. */
AOT_INLINE aot_row_span aot_row_clip(int32_t first, int32_t span, int32_t height) {
    aot_row_span found;
    int32_t end = first + span;
    found.above = first < 0 ? -first : 0;
    end = end < height ? end : height;
    found.rows = end - (first + found.above);
    found.rows = found.rows > 0 ? found.rows : 0;
    return found;
}

/* Points at[] at the rows of a window that exist: they are `pitch` bytes apart from x on. */
AOT_INLINE aot_row_span aot_rows_linear(const int8_t **at, const unsigned char *x, ptrdiff_t pitch,
                                        int32_t first, int32_t span, int32_t height) {
    const aot_row_span found = aot_row_clip(first, span, height);
    int32_t i;
    for (i = 0; i < found.rows; ++i) {
        at[i] = (const int8_t *)(x + (first + found.above + i) * pitch);
    }
    return found;
}

/* The same where row r is at unit * place[r] of the arena. */
static AOT_NOINLINE AOT_UNUSED aot_row_span aot_rows_placed(const int8_t **at,
                                                            const unsigned char *arena,
                                                            const aot_row_place *place,
                                                            int32_t first, int32_t span,
                                                            int32_t height) {
    const aot_row_span found = aot_row_clip(first, span, height);
    int32_t i;
    for (i = 0; i < found.rows; ++i) {
        at[i] = (const int8_t *)(arena + (size_t)place[first + found.above + i] * AOT_ROW_UNIT);
    }
    return found;
}

/* The rows at[0] .. at[rows - 1], of `bytes` each, one behind the other: where they are if they are
 * so, else copied to `to`. */
static AOT_NOINLINE AOT_UNUSED const void *
aot_rows_together(unsigned char *to, const int8_t *const *at, int32_t rows, size_t bytes) {
    int32_t i = 1;
    while (i < rows && at[i] == at[i - 1] + bytes) {
        ++i;
    }
    if (i >= rows) {
        return at[0];
    }
    for (i = 0; i < rows; ++i) {
        (void)memcpy(to + (size_t)i * bytes, at[i], bytes);
    }
    return to;
}

#endif

#endif /* AOT_ROWS_H */
