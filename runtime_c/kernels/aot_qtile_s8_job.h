/* SPDX-License-Identifier: MIT-0 */
/* The sums of a tile of int8 products, and what the assembly of aot_qtile_s8_*.h works from. */
#ifndef AOT_QTILE_S8_JOB_H
#define AOT_QTILE_S8_JOB_H

#include <stddef.h>
#include <stdint.h>

#include "aot/port.h"

#define AOT_QTILE_MAX 16 /* pixels times channels at most */

/* `fours` and `ones` are the bytes of a row of weights taken four k at a time and one at a time
 * (Thumb-1: `fours` is the run; it reads neither `ones` nor `q`), `gap` the bytes from the end of a
 * row of a pixel's window to the next. The assembly knows the offsets. */
typedef struct {
    int32_t sum[AOT_QTILE_MAX];
    int32_t fours, ones, gap, rows;
    const int8_t *p, *q, *w;
    const int32_t *bias;
} aot_qtile_job;

AOT_STATIC_ASSERT(offsetof(aot_qtile_job, fours) == 64, qtile_job_counts);
AOT_STATIC_ASSERT(offsetof(aot_qtile_job, p) == 80, qtile_job_pointers);

#endif /* AOT_QTILE_S8_JOB_H */
