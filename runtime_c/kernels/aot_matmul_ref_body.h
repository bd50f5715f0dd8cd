/* SPDX-License-Identifier: MIT-0 */
/* Template of the general matrix product: included once per element type by
 * aot_matmul_<dtype>_ref.h with AOT_MR_T (element type), AOT_MR_ACC (type of the sum: unsigned for
 * integers, which wrap), AOT_MR_WHOLE (a number, signed even if the type is not), AOT_MR_NAME
 * (kernel) and AOT_MR_PARAMS (its parameters). No guard.
 *
 * For every index (p, q, s) of three batch axes, outermost first:
 *     y(i, j) = alpha * sum over t of a(i, t) * b(t, j) + beta * c(i, j)
 * Every operand has a stride per axis, in elements; 0 broadcasts. c may be NULL. alpha and beta are
 * whole numbers for integers. No scratch; y may be c where their strides agree.
 * Where the elements of a row of b follow one another, tiles of rows times vectors of columns add
 * the same products in the same order.
 */

typedef struct {
    int32_t m, n, k;
    int32_t batch[3];
    int64_t a_batch[3], b_batch[3], c_batch[3], y_batch[3];
    int64_t a_row, a_col, b_row, b_col, c_row, c_col, y_row, y_col;
    double alpha, beta;
} AOT_MR_PARAMS;

AOT_INLINE int64_t AOT_MR_CAT(AOT_MR_NAME, _at)(const int64_t *stride, const int32_t *index) {
    return index[0] * stride[0] + index[1] * stride[1] + index[2] * stride[2];
}

/* alpha * sum + beta * c at row i and column j of a batch whose elements begin at y and c. */
AOT_INLINE void AOT_MR_CAT(AOT_MR_NAME, _store)(AOT_MR_T *y, const AOT_MR_T *c, AOT_MR_ACC sum,
                                                int32_t i, int32_t j, const AOT_MR_PARAMS *p) {
    sum *= (AOT_MR_ACC)AOT_MR_WHOLE(p->alpha);
    if (c != NULL) {
        sum += (AOT_MR_ACC)AOT_MR_WHOLE(p->beta) * (AOT_MR_ACC)c[i * p->c_row + j * p->c_col];
    }
    y[i * p->y_row + j * p->y_col] = (AOT_MR_T)sum;
}

#if AOT_VLEN > 1 && defined(__GNUC__)

#define AOT_MR_LANES (4 * AOT_VLEN / (int)sizeof(AOT_MR_ACC))
typedef AOT_MR_ACC AOT_MR_CAT(AOT_MR_NAME, _vector) __attribute__((vector_size(4 * AOT_VLEN)));
typedef AOT_MR_ACC AOT_MR_CAT(AOT_MR_NAME, _unaligned)
    __attribute__((vector_size(4 * AOT_VLEN), aligned(sizeof(AOT_MR_ACC)), may_alias));

/* P rows from i times O vectors of columns from j. */
AOT_INLINE void AOT_MR_CAT(AOT_MR_NAME, _tile)(AOT_MR_T *y, const AOT_MR_T *a, const AOT_MR_T *b,
                                               const AOT_MR_T *c, int32_t i, int32_t j,
                                               const AOT_MR_PARAMS *p, int P, int O) {
    AOT_MR_CAT(AOT_MR_NAME, _vector) s[16];
    const AOT_MR_T *const from = a + i * p->a_row;
    int32_t t, q, o, lane;
    AOT_UNROLL(16) for (q = 0; q < P * O; ++q) {
        s[q] = (AOT_MR_CAT(AOT_MR_NAME, _vector)){0};
    }
    b += j;
    for (t = 0; t < p->k; ++t, b += p->b_row) {
        AOT_UNROLL(16) for (o = 0; o < O; ++o) {
            const AOT_MR_CAT(AOT_MR_NAME, _vector) w =
                *(const AOT_MR_CAT(AOT_MR_NAME, _unaligned) *)(b + o * AOT_MR_LANES);
            AOT_UNROLL(16) for (q = 0; q < P; ++q) {
                s[q * O + o] += (AOT_MR_ACC)from[q * p->a_row + t * p->a_col] * w;
            }
        }
    }
    AOT_UNROLL(16) for (q = 0; q < P * O; ++q) {
        for (lane = 0; lane < AOT_MR_LANES; ++lane) {
            AOT_MR_CAT(AOT_MR_NAME, _store)
            (y, c, s[q][lane], i + q / O, j + q % O * AOT_MR_LANES + lane, p);
        }
    }
}

/* Columns from j by tiles as long as O vectors of them are left; the first column that is not. */
AOT_INLINE int32_t AOT_MR_CAT(AOT_MR_NAME, _tiles)(AOT_MR_T *y, const AOT_MR_T *a,
                                                   const AOT_MR_T *b, const AOT_MR_T *c, int32_t j,
                                                   const AOT_MR_PARAMS *p, int O, int ALONE) {
    for (; j + ALONE * AOT_MR_LANES <= p->n && p->m < 4; j += ALONE * AOT_MR_LANES) {
        int32_t i;
        for (i = 0; i < p->m; ++i) {
            AOT_MR_CAT(AOT_MR_NAME, _tile)(y, a, b, c, i, j, p, 1, ALONE);
        }
    }
    for (; j + O * AOT_MR_LANES <= p->n; j += O * AOT_MR_LANES) {
        int32_t i;
        for (i = 0; i + 4 <= p->m; i += 4) {
            AOT_MR_CAT(AOT_MR_NAME, _tile)(y, a, b, c, i, j, p, 4, O);
        }
        for (; i < p->m; ++i) {
            AOT_MR_CAT(AOT_MR_NAME, _tile)(y, a, b, c, i, j, p, 1, O);
        }
    }
    return j;
}

#endif

/* y of one batch: its elements, and those of a, b and c, begin at the pointers. */
AOT_INLINE void AOT_MR_CAT(AOT_MR_NAME, _one)(AOT_MR_T *y, const AOT_MR_T *a, const AOT_MR_T *b,
                                              const AOT_MR_T *c, const AOT_MR_PARAMS *p) {
    int32_t i, j, t, first = 0;
#if AOT_VLEN > 1 && defined(__GNUC__)
    if (p->b_col == 1) {
        first = AOT_MR_CAT(AOT_MR_NAME, _tiles)(y, a, b, c, first, p, AOT_VLEN > 8 ? 4 : 2, 8);
        first = AOT_MR_CAT(AOT_MR_NAME, _tiles)(y, a, b, c, first, p, 1, 1);
    }
#endif
    for (i = 0; i < p->m; ++i) {
        for (j = first; j < p->n; ++j) {
            AOT_MR_ACC sum = (AOT_MR_ACC)0;
            for (t = 0; t < p->k; ++t) {
                sum += (AOT_MR_ACC)a[i * p->a_row + t * p->a_col] *
                       (AOT_MR_ACC)b[t * p->b_row + j * p->b_col];
            }
            AOT_MR_CAT(AOT_MR_NAME, _store)(y, c, sum, i, j, p);
        }
    }
}

AOT_INLINE void AOT_MR_NAME(AOT_MR_T *y, const AOT_MR_T *a, const AOT_MR_T *b, const AOT_MR_T *c,
                            const AOT_MR_PARAMS *p) {
    int32_t at[3];
    for (at[0] = 0; at[0] < p->batch[0]; ++at[0]) {
        for (at[1] = 0; at[1] < p->batch[1]; ++at[1]) {
            for (at[2] = 0; at[2] < p->batch[2]; ++at[2]) {
                AOT_MR_CAT(AOT_MR_NAME, _one)
                (y + AOT_MR_CAT(AOT_MR_NAME, _at)(p->y_batch, at),
                 a + AOT_MR_CAT(AOT_MR_NAME, _at)(p->a_batch, at),
                 b + AOT_MR_CAT(AOT_MR_NAME, _at)(p->b_batch, at),
                 c != NULL ? c + AOT_MR_CAT(AOT_MR_NAME, _at)(p->c_batch, at) : NULL, p);
            }
        }
    }
}

#undef AOT_MR_LANES
