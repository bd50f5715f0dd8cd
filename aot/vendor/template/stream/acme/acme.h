/* SPDX-License-Identifier: MIT-0 */
#ifndef ACME_H
#define ACME_H

#include <stdint.h>

#include "aot/aot.h"

/* Runs a stream of commands to its end; tensors that the region lacks are NULL. AOT_VENDOR if the
 * stream was made for another core.
 *
 * The stream: ACME_MAGIC, the number of commands, and per command eight words: whether negative
 * results are cut to zero, the elements, then area and first element of y, a and b (y = a + b).
 * Areas: 0 weights, 1 scratch, 2 to 5 y0 to y3, 6 to 9 x0 to x3. */
aot_status acme_submit(const void *stream, const void *weights, void *scratch, void *y0, void *y1,
                       void *y2, void *y3, const void *x0, const void *x1, const void *x2,
                       const void *x3);

#endif
