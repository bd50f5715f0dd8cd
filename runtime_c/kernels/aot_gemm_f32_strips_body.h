/* SPDX-License-Identifier: MIT-0 */
/* Template of a product by strips: see aot_gemm_f32_strips.h. Not a header to include elsewhere.
 *
 * AOT_STRIPS(f) is the name of a function of the unit: f is `four`, which rounds four floats to 16
 * bits, or `tile`. */

/* Rows of k floats as strips. */
AOT_INLINE void AOT_STRIPS(rows)(uint16_t *d, const float *x, int32_t rows, int32_t k) {
    int32_t i, t;
    for (i = 0; i < (rows + AOT_STRIP - 1) / AOT_STRIP * AOT_STRIP; ++i) {
        uint16_t *to = d + i / AOT_STRIP * (ptrdiff_t)AOT_STRIP_SIZE(k) + i % AOT_STRIP * 4;
        const float *from = x + i * (ptrdiff_t)k;
        for (t = 0; t < k; t += 4, to += 4 * AOT_STRIP) {
            if (i >= rows) {
                (void)memset(to, 0, 4 * sizeof *to);
            } else if (k - t < 4) {
                AOT_STRIPS(four)(to, aot_vload_n(from + t, k - t, 0.0F));
            } else {
                AOT_STRIPS(four)(to, aot_vload(from + t));
            }
        }
    }
}

/* Instance: O vectors in a group; ACT 0 if act is NONE or CLAMP. */
AOT_INLINE void AOT_STRIPS_PRODUCT(float *y, const float *x, const void *weights,
                                   const float *factors, const float *bias, const float *r,
                                   void *scratch, const aot_gemm_f32_narrow_params *p, int O,
                                   int ACT) {
    const int32_t vecs = (p->n + AOT_VLEN - 1) / AOT_VLEN, words = (p->k + 1) / 2;
    uint16_t *const strips = (uint16_t *)scratch;
    int32_t first, b, o, i;
    for (first = 0; first < p->m; first += p->run) {
        const int32_t rows = p->m - first < p->run ? p->m - first : p->run;
        const uint8_t *w = (const uint8_t *)weights;
        AOT_STRIPS(rows)(strips, x + first * (ptrdiff_t)p->k, rows, p->k);
        for (b = 0; b < vecs; b += o) {
            const int32_t c = b * AOT_VLEN;
            o = aot_tile_f32_group(b, vecs, O);
            for (i = 0; i < rows; i += AOT_STRIP) {
                const uint16_t *const strip = strips + i / AOT_STRIP * AOT_STRIP_SIZE(p->k);
                const ptrdiff_t at = (first + i) * (ptrdiff_t)p->y_row + c;
                const int32_t left = rows - i, cols = p->n - c;
                float sums[AOT_STRIP * 2 * AOT_VLEN];
                if (o == 2) {
                    AOT_STRIPS(tile)(sums, strip, w, words, 2);
                } else {
                    AOT_STRIPS(tile)(sums, strip, w, words, 1);
                }
                aot_strip_finish(y + at, r != NULL ? r + at : NULL, sums, bias + c,
                                 factors != NULL ? factors + c : NULL, p,
                                 left < AOT_STRIP ? left : AOT_STRIP,
                                 cols < o * AOT_VLEN ? cols : o * AOT_VLEN, o, ACT);
            }
            w += (ptrdiff_t)words * 4 * o * AOT_VLEN;
        }
    }
}

#undef AOT_STRIPS
#undef AOT_STRIPS_PRODUCT
