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

AOT_INLINE void AOT_MR_NAME(AOT_MR_T *y, const AOT_MR_T *a, const AOT_MR_T *b, const AOT_MR_T *c,
                            const AOT_MR_PARAMS *p) {
    const AOT_MR_ACC alpha = (AOT_MR_ACC)AOT_MR_WHOLE(p->alpha);
    const AOT_MR_ACC beta = (AOT_MR_ACC)AOT_MR_WHOLE(p->beta);
    int32_t at[3], i, j, t;
    for (at[0] = 0; at[0] < p->batch[0]; ++at[0]) {
        for (at[1] = 0; at[1] < p->batch[1]; ++at[1]) {
            for (at[2] = 0; at[2] < p->batch[2]; ++at[2]) {
                const AOT_MR_T *an = a + AOT_MR_CAT(AOT_MR_NAME, _at)(p->a_batch, at);
                const AOT_MR_T *bn = b + AOT_MR_CAT(AOT_MR_NAME, _at)(p->b_batch, at);
                const int64_t yn = AOT_MR_CAT(AOT_MR_NAME, _at)(p->y_batch, at);
                const int64_t cn = AOT_MR_CAT(AOT_MR_NAME, _at)(p->c_batch, at);
                for (i = 0; i < p->m; ++i) {
                    for (j = 0; j < p->n; ++j) {
                        AOT_MR_ACC sum = (AOT_MR_ACC)0;
                        for (t = 0; t < p->k; ++t) {
                            sum += (AOT_MR_ACC)an[i * p->a_row + t * p->a_col] *
                                   (AOT_MR_ACC)bn[t * p->b_row + j * p->b_col];
                        }
                        sum *= alpha;
                        if (c != NULL) {
                            sum += beta * (AOT_MR_ACC)c[cn + i * p->c_row + j * p->c_col];
                        }
                        y[yn + i * p->y_row + j * p->y_col] = (AOT_MR_T)sum;
                    }
                }
            }
        }
    }
}
