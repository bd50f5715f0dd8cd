/* SPDX-License-Identifier: MIT-0 */
/* Template of the plain convolution: included once per element type by aot_conv_<dtype>_ref.h with
 * AOT_CR_T (element type), AOT_CR_NAME (kernel) and AOT_CR_PARAMS (its parameters). No guard.
 *
 * x [n][ic][id][ih][iw], w [oc][ic/groups][kd][kh][kw], bias [oc] or NULL, y [n][oc][od][oh][ow],
 * all row-major; arrays of the parameters are in the order depth, height, width (1 and 0 for axes
 * that the operator does not have). No scratch; y must not overlap x.
 */

typedef struct {
    int32_t n, ic, oc, groups;
    int32_t in[3], out[3], k[3], s[3], d[3], pad[3];
} AOT_CR_PARAMS;

AOT_INLINE void AOT_CR_NAME(AOT_CR_T *y, const AOT_CR_T *x, const AOT_CR_T *w, const AOT_CR_T *bias,
                            const AOT_CR_PARAMS *p) {
    const int32_t icg = p->ic / p->groups, ocg = p->oc / p->groups;
    const int64_t plane = (int64_t)p->in[0] * p->in[1] * p->in[2];
    const int64_t window = (int64_t)p->k[0] * p->k[1] * p->k[2];
    int32_t n, oc, z, yy, xx, c, a, b, e;
    for (n = 0; n < p->n; ++n) {
        for (oc = 0; oc < p->oc; ++oc) {
            const AOT_CR_T *xn = x + ((int64_t)n * p->ic + (int64_t)(oc / ocg) * icg) * plane;
            const AOT_CR_T *wo = w + (int64_t)oc * icg * window;
            for (z = 0; z < p->out[0]; ++z) {
                for (yy = 0; yy < p->out[1]; ++yy) {
                    for (xx = 0; xx < p->out[2]; ++xx) {
                        AOT_CR_T sum = bias != NULL ? bias[oc] : (AOT_CR_T)0;
                        for (c = 0; c < icg; ++c) {
                            for (a = 0; a < p->k[0]; ++a) {
                                const int32_t iz = z * p->s[0] - p->pad[0] + a * p->d[0];
                                if (iz < 0 || iz >= p->in[0]) {
                                    continue;
                                }
                                for (b = 0; b < p->k[1]; ++b) {
                                    const int32_t iy = yy * p->s[1] - p->pad[1] + b * p->d[1];
                                    if (iy < 0 || iy >= p->in[1]) {
                                        continue;
                                    }
                                    for (e = 0; e < p->k[2]; ++e) {
                                        const int32_t ix = xx * p->s[2] - p->pad[2] + e * p->d[2];
                                        if (ix >= 0 && ix < p->in[2]) {
                                            sum +=
                                                xn[c * plane +
                                                   ((int64_t)iz * p->in[1] + iy) * p->in[2] + ix] *
                                                wo[c * window +
                                                   ((int64_t)a * p->k[1] + b) * p->k[2] + e];
                                        }
                                    }
                                }
                            }
                        }
                        *y++ = sum;
                    }
                }
            }
        }
    }
}
