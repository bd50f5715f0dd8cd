/* SPDX-License-Identifier: MIT-0 */
/* Functions of cuDNN computed by the CPU, for tests. */
#include "standin.h"

/* -- cuDNN: descriptors ------------------------------------------------------------------------ */

struct cudnnTensorStruct {
    int n[4];
    long long s[4];
};
struct cudnnOpTensorStruct {
    int op;
};
struct cudnnActivationStruct {
    int mode, nan;
    double coef;
};
struct cudnnPoolingStruct {
    int mode, window[2], pad[2], stride[2];
};
struct cudnnFilterStruct {
    int n[4];
};
struct cudnnConvolutionStruct {
    int pad[2], stride[2], dilation[2], groups, math;
};

#define MAKER(Name)                                                                                \
    cudnnStatus_t cudnnCreate##Name##Descriptor(cudnn##Name##Descriptor_t *made) {                 \
        *made = calloc(1, sizeof **made);                                                          \
        return standin_fails(__func__) ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;            \
    }                                                                                              \
    cudnnStatus_t cudnnDestroy##Name##Descriptor(cudnn##Name##Descriptor_t made) {                 \
        free(made);                                                                                \
        return CUDNN_STATUS_SUCCESS;                                                               \
    }
MAKER(Tensor)
MAKER(OpTensor)
MAKER(Activation)
MAKER(Pooling)
MAKER(Filter)
MAKER(Convolution)

static cudnnStatus_t ok(bool fits) {
    return fits ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnCreate(cudnnHandle_t *h) {
    *h = calloc(1, sizeof **h);
    return ok(!standin_fails(__func__));
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t h) {
    free(h);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t stream) {
    h->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t d, cudnnDataType_t type, int n,
                                           int c, int h, int w, int sn, int sc, int sh, int sw) {
    (void)type;
    *d = (struct cudnnTensorStruct){{n, c, h, w}, {sn, sc, sh, sw}};
    return ok(n > 0 && c > 0 && h > 0 && w > 0 && sn > 0 && sc > 0 && sh > 0 && sw > 0);
}
cudnnStatus_t cudnnSetOpTensorDescriptor(cudnnOpTensorDescriptor_t d, cudnnOpTensorOp_t op,
                                         cudnnDataType_t type, cudnnNanPropagation_t nan) {
    (void)type;
    (void)nan;
    d->op = (int)op;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t d,
                                           cudnnActivationMode_t mode, cudnnNanPropagation_t nan,
                                           double coef) {
    d->nan = (int)nan;
    d->mode = (int)mode;
    d->coef = coef;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t d, cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t nan, int wh, int ww, int ph, int pw,
                                          int sh, int sw) {
    (void)nan;
    *d = (struct cudnnPoolingStruct){(int)mode, {wh, ww}, {ph, pw}, {sh, sw}};
    return ok(wh > 0 && ww > 0 && ph >= 0 && pw >= 0 && ph < wh && pw < ww && sh > 0 && sw > 0);
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
    (void)type;
    (void)format;
    *d = (struct cudnnFilterStruct){{k, c, h, w}};
    return ok(k > 0 && c > 0 && h > 0 && w > 0);
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int ph, int pw,
                                              int sh, int sw, int dh, int dw,
                                              cudnnConvolutionMode_t mode, cudnnDataType_t type) {
    (void)mode;
    (void)type;
    *d = (struct cudnnConvolutionStruct){{ph, pw}, {sh, sw}, {dh, dw}, 1, 0};
    return ok(ph >= 0 && pw >= 0 && sh > 0 && sw > 0 && dh > 0 && dw > 0);
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups) {
    d->groups = groups;
    return ok(groups > 0);
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t type) {
    d->math = (int)type;
    return CUDNN_STATUS_SUCCESS;
}

/* Whether the library's formula gives the extents of a result. */
static bool extents(const int *x, const int *y, const int *w, const int *pad, const int *stride,
                    const int *dilation) {
    for (int i = 0; i < 2; ++i) {
        const int reach = (w[i] - 1) * (dilation == NULL ? 1 : dilation[i]) + 1;
        if (y[i] != 1 + (x[i] + 2 * pad[i] - reach) / stride[i] || x[i] + 2 * pad[i] < reach)
            return false;
    }
    return true;
}
static bool conv_fits(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                      cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t y) {
    return x->n[1] == w->n[1] * c->groups && y->n[1] == w->n[0] && x->n[0] == y->n[0] &&
           w->n[0] % c->groups == 0 &&
           extents(x->n + 2, y->n + 2, w->n + 2, c->pad, c->stride, c->dilation);
}
/* Bytes of workspace; more for larger windows. */
static size_t space_of(cudnnFilterDescriptor_t w) {
    return 4096 * (size_t)w->n[2];
}
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t h, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t c,
                                                     cudnnTensorDescriptor_t y, int requested,
                                                     int *returned,
                                                     cudnnConvolutionFwdAlgoPerf_t *results) {
    (void)h;
    (void)requested;
    *returned = 2; /* the first one computes in a shorter format */
    memset(results, 0, 2 * sizeof *results);
    results[0].mathType = CUDNN_TENSOR_OP_MATH;
    results[1].mathType = CUDNN_FMA_MATH;
    results[1].algo = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
    return ok(conv_fits(x, w, c, y));
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t h, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w,
                                                      cudnnConvolutionDescriptor_t c,
                                                      cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t algo,
                                                      size_t *bytes) {
    (void)h;
    *bytes = space_of(w);
    return ok(conv_fits(x, w, c, y) && c->math == CUDNN_FMA_MATH &&
              algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
}

/* -- cuDNN: what is computed ------------------------------------------------------------------- */

/* Runs the body for every element of a tensor d at i[0] … i[3]. */
#define EACH(d)                                                                                    \
    for (int i[4] = {0}; i[0] < (d)->n[0]; ++i[0])                                                 \
        for (i[1] = 0; i[1] < (d)->n[1]; ++i[1])                                                   \
            for (i[2] = 0; i[2] < (d)->n[2]; ++i[2])                                               \
                for (i[3] = 0; i[3] < (d)->n[3]; ++i[3])

static long long at(const struct cudnnTensorStruct *d, const int *i) {
    long long found = 0;
    for (int k = 0; k < 4; ++k)
        found += d->n[k] == 1 ? 0 : i[k] * d->s[k];
    return found;
}
static bool broadcasts(const struct cudnnTensorStruct *small, const struct cudnnTensorStruct *d) {
    for (int k = 0; k < 4; ++k)
        if (small->n[k] != 1 && small->n[k] != d->n[k])
            return false;
    return true;
}
static bool same(const struct cudnnTensorStruct *a, const struct cudnnTensorStruct *b) {
    return memcmp(a->n, b->n, sizeof a->n) == 0;
}

static void convolve(const work *w) {
    const struct cudnnConvolutionStruct *c = w->conv;
    const struct cudnnTensorStruct *x = w->ad, *y = w->yd;
    const int *f = w->w->n, outs = f[0] / c->groups;
    EACH(y) {
        float sum = 0.0F;
        for (int k = 0; k < f[1]; ++k)
            for (int u = 0; u < f[2]; ++u)
                for (int v = 0; v < f[3]; ++v) {
                    const int row = i[2] * c->stride[0] - c->pad[0] + u * c->dilation[0];
                    const int col = i[3] * c->stride[1] - c->pad[1] + v * c->dilation[1];
                    const int from[4] = {i[0], i[1] / outs * f[1] + k, row, col};
                    if (row >= 0 && row < x->n[2] && col >= 0 && col < x->n[3])
                        sum += w->a[at(x, from)] * w->b[((i[1] * f[1] + k) * f[2] + u) * f[3] + v];
                }
        if (w->bias != NULL)
            sum += w->bias[i[1]];
        if (w->z != NULL)
            sum += w->z[at(y, i)];
        w->y[at(y, i)] = w->number && sum < 0.0F ? 0.0F : sum;
    }
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t h, const void *alpha,
                                      cudnnTensorDescriptor_t xd, const void *x,
                                      cudnnFilterDescriptor_t wd, const void *w,
                                      cudnnConvolutionDescriptor_t c,
                                      cudnnConvolutionFwdAlgo_t algo, void *space, size_t bytes,
                                      const void *beta, cudnnTensorDescriptor_t yd, void *y) {
    (void)alpha;
    (void)algo;
    (void)beta;
    standin_put(h->stream, (work){.run = convolve,
                                  .a = x,
                                  .b = w,
                                  .y = y,
                                  .space = space,
                                  .space_bytes = bytes,
                                  .ad = xd,
                                  .yd = yd,
                                  .w = wd,
                                  .conv = c});
    return ok(!standin_fails(__func__) && conv_fits(xd, wd, c, yd) && space != NULL &&
              bytes >= space_of(wd));
}
cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t h, const void *alpha1, cudnnTensorDescriptor_t xd, const void *x,
    cudnnFilterDescriptor_t wd, const void *w, cudnnConvolutionDescriptor_t c,
    cudnnConvolutionFwdAlgo_t algo, void *space, size_t bytes, const void *alpha2,
    cudnnTensorDescriptor_t zd, const void *z, cudnnTensorDescriptor_t bd, const void *bias,
    cudnnActivationDescriptor_t act, cudnnTensorDescriptor_t yd, void *y) {
    const float *const factor = alpha2;
    (void)alpha1;
    (void)algo;
    standin_put(h->stream, (work){.run = convolve,
                                  .a = x,
                                  .b = w,
                                  .bias = bias,
                                  .z = *factor == 0.0F ? NULL : z,
                                  .y = y,
                                  .space = space,
                                  .space_bytes = bytes,
                                  .ad = xd,
                                  .yd = yd,
                                  .w = wd,
                                  .conv = c,
                                  .number = 1});
    return ok(!standin_fails(__func__) && conv_fits(xd, wd, c, yd) && space != NULL &&
              bytes >= space_of(wd) && same(zd, yd) && bd->n[1] == yd->n[1] &&
              act->mode == CUDNN_ACTIVATION_RELU);
}

static float pair(int op, float a, float b) {
    switch (op) {
    case CUDNN_OP_TENSOR_ADD:
        return a + b;
    case CUDNN_OP_TENSOR_MUL:
        return a * b;
    case CUDNN_OP_TENSOR_MIN:
        return isnan(a) || a < b ? a : b;
    case CUDNN_OP_TENSOR_MAX:
        return isnan(a) || a > b ? a : b;
    default:
        return sqrtf(a);
    }
}
static void combine(const work *w) {
    EACH(w->yd)
    w->y[at(w->yd, i)] =
        pair(w->number, w->alpha * w->a[at(w->ad, i)], w->beta * w->b[at(w->bd, i)]);
}
cudnnStatus_t cudnnOpTensor(cudnnHandle_t h, cudnnOpTensorDescriptor_t op, const void *alpha1,
                            cudnnTensorDescriptor_t ad, const void *A, const void *alpha2,
                            cudnnTensorDescriptor_t bd, const void *B, const void *beta,
                            cudnnTensorDescriptor_t cd, void *C) {
    const float *const first = alpha1, *const second = alpha2, *const kept = beta;
    standin_put(h->stream, (work){.run = combine,
                                  .a = A,
                                  .b = B,
                                  .y = C,
                                  .ad = ad,
                                  .bd = bd,
                                  .yd = cd,
                                  .alpha = *first,
                                  .beta = *second,
                                  .number = op->op});
    return ok(same(ad, cd) && broadcasts(bd, cd) && *kept == 0.0F && A != C && B != C);
}
static void accumulate(const work *w) {
    EACH(w->yd) w->y[at(w->yd, i)] += w->alpha * w->a[at(w->ad, i)];
}
cudnnStatus_t cudnnAddTensor(cudnnHandle_t h, const void *alpha, cudnnTensorDescriptor_t ad,
                             const void *A, const void *beta, cudnnTensorDescriptor_t cd, void *C) {
    const float *const factor = alpha, *const kept = beta;
    standin_put(h->stream,
                (work){.run = accumulate, .a = A, .y = C, .ad = ad, .yd = cd, .alpha = *factor});
    return ok(broadcasts(ad, cd) && *kept == 1.0F);
}
static void transform(const work *w) {
    EACH(w->yd) w->y[at(w->yd, i)] = w->alpha * w->a[at(w->ad, i)];
}
cudnnStatus_t cudnnTransformTensor(cudnnHandle_t h, const void *alpha, cudnnTensorDescriptor_t xd,
                                   const void *x, const void *beta, cudnnTensorDescriptor_t yd,
                                   void *y) {
    const float *const factor = alpha;
    (void)beta;
    standin_put(h->stream,
                (work){.run = transform, .a = x, .y = y, .ad = xd, .yd = yd, .alpha = *factor});
    return ok(same(xd, yd) && x != y);
}
static float activate(int mode, float x, float coef) {
    switch (mode) {
    case CUDNN_ACTIVATION_SIGMOID:
        return 1.0F / (1.0F + expf(-x));
    case CUDNN_ACTIVATION_TANH:
        return tanhf(x);
    case CUDNN_ACTIVATION_ELU:
        return x > 0.0F ? x : coef * expm1f(x);
    case CUDNN_ACTIVATION_CLIPPED_RELU:
        return isnan(x) ? x : fminf(fmaxf(x, 0.0F), coef);
    default:
        return x < 0.0F ? 0.0F : x;
    }
}
static void activated(const work *w) {
    EACH(w->yd) {
        const float x = w->a[at(w->ad, i)];
        const bool dropped = w->batch == 0 && isnan(x);
        w->y[at(w->yd, i)] = dropped ? 0.0F : activate(w->number, x, (float)w->value);
    }
}
cudnnStatus_t cudnnActivationForward(cudnnHandle_t h, cudnnActivationDescriptor_t act,
                                     const void *alpha, cudnnTensorDescriptor_t xd, const void *x,
                                     const void *beta, cudnnTensorDescriptor_t yd, void *y) {
    (void)alpha;
    (void)beta;
    standin_put(h->stream, (work){.run = activated,
                                  .a = x,
                                  .y = y,
                                  .ad = xd,
                                  .yd = yd,
                                  .number = act->mode,
                                  .batch = act->nan,
                                  .value = act->coef});
    return ok(same(xd, yd));
}
static void softmax(const work *w) {
    EACH(w->yd) {
        float most = -INFINITY, sum = 0.0F;
        if (i[1] != 0)
            continue;
        const float *x = w->a + at(w->ad, i);
        for (int k = 0; k < w->ad->n[1]; ++k)
            most = fmaxf(most, x[k * w->ad->s[1]]);
        for (int k = 0; k < w->ad->n[1]; ++k)
            sum += expf(x[k * w->ad->s[1]] - most);
        for (int k = 0; k < w->ad->n[1]; ++k)
            w->y[at(w->yd, i) + k * w->yd->s[1]] = expf(x[k * w->ad->s[1]] - most) / sum;
    }
}
cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t h, cudnnSoftmaxAlgorithm_t algo,
                                  cudnnSoftmaxMode_t mode, const void *alpha,
                                  cudnnTensorDescriptor_t xd, const void *x, const void *beta,
                                  cudnnTensorDescriptor_t yd, void *y) {
    (void)algo;
    (void)mode;
    (void)alpha;
    (void)beta;
    standin_put(h->stream, (work){.run = softmax, .a = x, .y = y, .ad = xd, .yd = yd});
    return ok(same(xd, yd) && x != y && !standin_fails(__func__));
}
static void pool(const work *w) {
    const struct cudnnPoolingStruct *p = w->pool;
    EACH(w->yd) {
        float most = -INFINITY, sum = 0.0F;
        int count = 0;
        for (int u = 0; u < p->window[0]; ++u)
            for (int v = 0; v < p->window[1]; ++v) {
                const int row = i[2] * p->stride[0] - p->pad[0] + u;
                const int col = i[3] * p->stride[1] - p->pad[1] + v;
                const int from[4] = {i[0], i[1], row, col};
                if (row < 0 || row >= w->ad->n[2] || col < 0 || col >= w->ad->n[3])
                    continue;
                const float x = w->a[at(w->ad, from)];
                most = isnan(x) || x > most ? x : most;
                sum += x;
                ++count;
            }
        if (p->mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING)
            count = p->window[0] * p->window[1];
        w->y[at(w->yd, i)] = p->mode == CUDNN_POOLING_MAX ? most : sum / (float)count;
    }
}
cudnnStatus_t cudnnPoolingForward(cudnnHandle_t h, cudnnPoolingDescriptor_t p, const void *alpha,
                                  cudnnTensorDescriptor_t xd, const void *x, const void *beta,
                                  cudnnTensorDescriptor_t yd, void *y) {
    (void)alpha;
    (void)beta;
    standin_put(h->stream, (work){.run = pool, .a = x, .y = y, .ad = xd, .yd = yd, .pool = p});
    return ok(extents(xd->n + 2, yd->n + 2, p->window, p->pad, p->stride, NULL));
}
static void normalise(const work *w) {
    for (int c = 0; c < w->yd->n[1]; ++c) {
        double mean = 0.0, variance = 0.0, count = 0.0;
        EACH(w->yd) if (i[1] == c) {
            mean += (double)w->a[at(w->ad, i)];
            count += 1.0;
        }
        mean /= count;
        EACH(w->yd)
        if (i[1] == c)
            variance += pow((double)w->a[at(w->ad, i)] - mean, 2.0);
        const double factor = 1.0 / sqrt(variance / count + w->value);
        EACH(w->yd)
        if (i[1] == c)
            w->y[at(w->yd, i)] =
                w->b[c] * (float)(((double)w->a[at(w->ad, i)] - mean) * factor) + w->bias[c];
    }
}
cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t h, cudnnBatchNormMode_t mode, const void *alpha, const void *beta,
    cudnnTensorDescriptor_t xd, const void *x, cudnnTensorDescriptor_t yd, void *y,
    cudnnTensorDescriptor_t channels, const void *scale, const void *bias, double factor,
    void *mean, void *variance, double epsilon, void *saved, void *inverse) {
    (void)mode;
    (void)alpha;
    (void)beta;
    (void)factor;
    (void)saved;
    (void)inverse;
    standin_put(h->stream, (work){.run = normalise,
                                  .a = x,
                                  .b = scale,
                                  .bias = bias,
                                  .y = y,
                                  .ad = xd,
                                  .yd = yd,
                                  .value = epsilon});
    return ok(same(xd, yd) && channels->n[1] == xd->n[1] && mean == NULL && variance == NULL &&
              epsilon >= 0.0);
}
