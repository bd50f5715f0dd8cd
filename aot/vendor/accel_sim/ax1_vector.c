/* SPDX-License-Identifier: MIT-0 */
/* DRAIN, ALU and POOL. */
#include "ax1_math.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("O3", "fp-contract=off")
#endif

static int32_t ax1_table(const ax1_machine *m, int32_t table, int32_t q) {
    return (int8_t)m->lut[256 * table + 128 + q];
}

static float ax1_load(const uint8_t *p, int32_t i) {
    float v;
    memcpy(&v, p + 4 * i, sizeof v);
    return v;
}

static void ax1_store(uint8_t *p, int32_t i, float v) {
    memcpy(p + 4 * i, &v, sizeof v);
}

/* -- DRAIN ------------------------------------------------------------------------------------ */

static int32_t ax1_drain_value(const ax1_machine *m, const ax1_vector *v, int32_t acc,
                              const ax1_prm *p, const uint8_t *other, int32_t c, int32_t lut) {
    const int32_t sum = (int32_t)((uint32_t)acc + (uint32_t)p->bias);
    int32_t q = ax1_clamped(ax1_requantise(sum, p->mult, p->shift, v->rq), v);
    if (other != NULL) {
        q = ax1_add_values(q, ((const int8_t *)other)[c], v);
    }
    return lut > 0 ? ax1_table(m, lut - 1, q) : q;
}

static float ax1_drain_float(const ax1_vector *v, int32_t acc, const ax1_prm *p,
                             const uint8_t *other, int32_t c) {
    float value = ax1_float_of(acc) + ax1_float_of(p->bias);
    if (other != NULL) {
        value = value + ax1_load(other, c);
    }
    return ax1_limited(value, v);
}

/* Parameters of the channels of a DRAIN in a row; one machine, one thread. */
typedef struct ax1_scales {
    int32_t bias[AX1_PRM_CHANNELS], mult[AX1_PRM_CHANNELS];
} ax1_scales;

static ax1_scales ax1_row;

static void ax1_scales_of(const ax1_machine *m, int32_t prm, int32_t ch) {
    int32_t c;
    for (c = 0; c < ch; ++c) {
        const ax1_prm *p = &m->prm[(prm + c) % AX1_PRM_CHANNELS];
        ax1_row.bias[c] = p->bias;
        ax1_row.mult[c] = p->mult;
    }
}

/* The values of a tile of one pixel by RQ 0: what ax1_drain_value computes without residual and
 * table, for AX1_M channels from the first on. */
static void ax1_values(int8_t *to, const int32_t *sums, const int32_t *bias, const int32_t *mult,
                      const ax1_vector *v) {
    const int32_t lo = v->lo - v->zero, hi = v->hi - v->zero, zero = v->zero;
    int32_t c;
    for (c = 0; c < AX1_M; ++c) {
        const int32_t sum = (int32_t)((uint32_t)sums[c] + (uint32_t)bias[c]);
        to[c] = (int8_t)(ax1_clamp(ax1_scaled(sum, mult[c]), lo, hi) + zero);
    }
}

/* All channels of pixel p of `pixels`; channels beyond the last are computed and dropped. */
static void ax1_drain_pixel(const ax1_machine *m, const ax1_vector *v, uint8_t *to, int32_t row,
                            int32_t pixels, int32_t ch, int32_t lut) {
    int8_t values[AX1_M];
    int32_t first, c;
    for (first = 0; first < ch; first += AX1_M, row += pixels) {
        const int32_t n = ch - first < AX1_M ? ch - first : AX1_M;
        ax1_values(values, m->acc[row % AX1_ACC_ROWS], ax1_row.bias + first, ax1_row.mult + first, v);
        for (c = 0; lut > 0 && c < n; ++c) {
            values[c] = (int8_t)ax1_table(m, lut - 1, values[c]);
        }
        memcpy(to + first, values, (size_t)n);
    }
}

uint32_t AX1_NAME(exec_drain)(ax1_machine *m, const ax1_entry *e) {
    const ax1_view view = ax1_view_of(e->view), second = ax1_view_of(e->other);
    const ax1_vector v = ax1_vector_of(e);
    const int32_t rows = AX1_DRAIN_ROWS(e->w), cols = AX1_DRAIN_COLS(e->w);
    const int32_t ch = AX1_DRAIN_CH(e->w), at = AX1_DRAIN_AT(e->w), prm = AX1_DRAIN_PRM(e->w);
    const int32_t size = ax1_size(e), lanes = AX1_M / size, lut = AX1_DRAIN_LUT(e->w);
    int32_t p, c;
    const int plain = size == 1 && !AX1_DRAIN_RES(e->w) && v.rq != AX1_RQ_TFLITE;
    if (ax1_up(ch, lanes) > AX1_ACC_ROWS / (rows * cols) || ch > AX1_PRM_CHANNELS) {
        return AX1_FAULT_LOCAL;
    }
    if (plain) {
        ax1_scales_of(m, prm, ch);
    }
    for (p = 0; p < rows * cols; ++p) {
        const int32_t y = AX1_DRAIN_Y(e->w) + p / cols, x = AX1_DRAIN_X(e->w) + p % cols;
        uint8_t *to = ax1_bytes(m, &view, y, x, at, ch * size), *other = NULL;
        if (AX1_DRAIN_RES(e->w)) {
            other = ax1_bytes(m, &second, y, x, at, ch * size);
        }
        if (to == NULL || (other == NULL && AX1_DRAIN_RES(e->w))) {
            return AX1_FAULT_LOCAL;
        }
        if (plain) {
            ax1_drain_pixel(m, &v, to, AX1_DRAIN_ACC(e->w) + p, rows * cols, ch, lut);
            continue;
        }
        for (c = 0; c < ch; ++c) {
            const int32_t row = AX1_DRAIN_ACC(e->w) + c / lanes * rows * cols + p;
            const int32_t acc = m->acc[row % AX1_ACC_ROWS][c % lanes];
            const ax1_prm *channel = &m->prm[(prm + c) % AX1_PRM_CHANNELS];
            if (size == 4) {
                ax1_store(to, c, ax1_drain_float(&v, acc, channel, other, c));
            } else {
                to[c] = (uint8_t)ax1_drain_value(m, &v, acc, channel, other, c, lut);
            }
        }
    }
    return 0;
}

/* -- Softmax ---------------------------------------------------------------------------------- */

/* a * b * 2^-31 to nearest. */
static int32_t ax1_softmax_mul(int32_t a, int32_t b) {
    const int64_t product = (int64_t)a * b;
    const int64_t half = (int64_t)1 << 30;
    return ax1_wrap((product + (product >= 0 ? half : 1 - half)) / ((int64_t)1 << 31));
}

/* v / 2^by to nearest, halves away from zero. */
static int32_t ax1_softmax_half(int32_t v, int32_t by) {
    const int32_t mask = (int32_t)((1U << by) - 1U);
    return (v >> by) + ((v & mask) > (mask >> 1) + (v < 0));
}

/* 1 / (1 + fraction) in Q0.31. */
static int32_t ax1_softmax_reciprocal(int32_t fraction) {
    const int32_t half = (int32_t)(((int64_t)fraction + ((int64_t)1 << 31)) / 2);
    int64_t x = 1515870810 + (int64_t)ax1_softmax_mul(half, -1010580540);
    int n;
    for (n = 0; n < 3; ++n) {
        const int32_t rest = (1 << 29) - ax1_softmax_mul(half, (int32_t)x);
        const int64_t step = (int64_t)4 * ax1_softmax_mul((int32_t)x, rest);
        x += step > INT32_MAX ? INT32_MAX : step < INT32_MIN ? INT32_MIN : step;
    }
    return x > INT32_MAX / 2 ? INT32_MAX : (int32_t)(2 * x);
}

static int32_t ax1_softmax_entry(const ax1_machine *m, int32_t far, int32_t last) {
    const uint8_t *p = m->lut + 4 * (far < last ? far : last);
    return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                     (uint32_t)p[3] << 24);
}

static int32_t ax1_softmax_code(int32_t entry, uint32_t scale, int32_t shift, int tflite) {
    if (tflite) {
        return shift > 31 ? 0 : ax1_softmax_half(ax1_softmax_mul((int32_t)scale, entry), shift);
    } else {
        const uint64_t product = (uint64_t)(uint32_t)entry * scale;
        const uint64_t q = (product + ((uint64_t)1 << (shift - 1))) >> shift;
        return q > (1U << 20) ? 1 << 20 : (int32_t)q;
    }
}

static void ax1_softmax(const ax1_machine *m, uint8_t *to, const uint8_t *from, int32_t ch,
                        const ax1_vector *v) {
    const int8_t *x = (const int8_t *)from;
    const int tflite = v->rq == AX1_RQ_TFLITE;
    const int32_t last = v->za & 255;
    int32_t c, top = -128, shift;
    uint32_t sum = 0, scale;
    for (c = 0; c < ch; ++c) {
        top = x[c] > top ? x[c] : top;
    }
    for (c = 0; c < ch; ++c) {
        const int32_t entry = ax1_softmax_entry(m, top - x[c], last);
        sum += (uint32_t)(tflite ? ax1_softmax_half(entry, 12) : entry);
    }
    sum = sum != 0U ? sum : 1U;
    if (tflite) {
        int32_t lead = 0;
        while (((sum << lead) & 0x80000000U) == 0U) {
            ++lead;
        }
        scale = (uint32_t)ax1_softmax_reciprocal((int32_t)((sum << lead) - 0x80000000U));
        shift = 12 - lead + 23;
    } else {
        scale = (uint32_t)(((uint64_t)(uint32_t)v->mult << (v->shift & 31)) / sum);
        shift = (v->shift & 31) + 16;
    }
    for (c = 0; c < ch; ++c) {
        const int32_t entry = ax1_softmax_entry(m, top - x[c], last);
        to[c] =
            (uint8_t)ax1_clamp(ax1_softmax_code(entry, scale, shift, tflite) + v->zero, -128, 127);
    }
}

/* -- ALU -------------------------------------------------------------------------------------- */

static int32_t ax1_alu_code(const ax1_machine *m, const ax1_entry *e, const ax1_vector *v,
                            int32_t a, int32_t b) {
    switch (AX1_ALU_OP(e->w)) {
    case AX1_ALU_FILL:
        return v->zero;
    case AX1_ALU_ADD:
        return ax1_add_values(a, b, v);
    case AX1_ALU_MUL:
        return ax1_clamped(ax1_requantise((a - v->za) * (b - v->zb), v->mult, v->shift, v->rq), v);
    case AX1_ALU_MAX:
        return a > b ? a : b;
    case AX1_ALU_MIN:
        return a < b ? a : b;
    case AX1_ALU_CLIP:
        return ax1_clamp(a, v->lo, v->hi);
    case AX1_ALU_LUT:
        return ax1_table(m, AX1_ALU_TABLE(e->w), a);
    default:
        return a;
    }
}

static float ax1_alu_float(int32_t op, const ax1_vector *v, float a, float b) {
    switch (op) {
    case AX1_ALU_FILL:
        return ax1_float_of(v->ma);
    case AX1_ALU_ADD:
        return ax1_limited(a + b, v);
    case AX1_ALU_MUL:
        return ax1_limited(a * b, v);
    case AX1_ALU_MAX:
        return a > b ? a : b;
    case AX1_ALU_MIN:
        return a < b ? a : b;
    case AX1_ALU_CLIP:
        return ax1_limited(a, v);
    default:
        return a;
    }
}

static void ax1_alu_pixel(const ax1_machine *m, const ax1_entry *e, const ax1_vector *v,
                          uint8_t *to, const uint8_t *a, const uint8_t *b) {
    const int32_t ch = AX1_ALU_CH(e->w), op = AX1_ALU_OP(e->w), size = ax1_size(e);
    int32_t c;
    if (op == AX1_ALU_COPY) {
        memmove(to, a, (size_t)(ch * size));
    } else if (op == AX1_ALU_SOFTMAX) {
        ax1_softmax(m, to, a, ch, v);
    } else if (size == 4) {
        for (c = 0; c < ch; ++c) {
            const float left = a != NULL ? ax1_load(a, c) : 0.0F;
            ax1_store(to, c, ax1_alu_float(op, v, left, b != NULL ? ax1_load(b, c) : 0.0F));
        }
    } else {
        for (c = 0; c < ch; ++c) {
            const int32_t left = a != NULL ? ((const int8_t *)a)[c] : 0;
            const int32_t right = b != NULL ? ((const int8_t *)b)[c] : 0;
            to[c] = (uint8_t)ax1_alu_code(m, e, v, left, right);
        }
    }
}

uint32_t AX1_NAME(exec_alu)(ax1_machine *m, const ax1_entry *e) {
    const ax1_view view = ax1_view_of(e->view), from = ax1_view_of(e->source);
    const ax1_view second = ax1_view_of(e->other);
    const ax1_vector v = ax1_vector_of(e);
    const int32_t op = AX1_ALU_OP(e->w), cols = AX1_ALU_COLS(e->w), rows = AX1_ALU_ROWS(e->w);
    const int32_t bytes = AX1_ALU_CH(e->w) * ax1_size(e);
    const int two =
        op == AX1_ALU_ADD || op == AX1_ALU_MUL || op == AX1_ALU_MAX || op == AX1_ALU_MIN;
    int32_t i, j;
    for (i = 0; i < rows; ++i) {
        for (j = 0; j < cols; ++j) {
            const int32_t y = AX1_ALU_Y(e->w) + i, x = AX1_ALU_X(e->w) + j;
            uint8_t *to = ax1_bytes(m, &view, y, x, 0, bytes);
            const uint8_t *a = NULL, *b = NULL;
            if (op != AX1_ALU_FILL) {
                a = ax1_bytes(m, &from, AX1_ALU_FROM_Y(e->w) + i, AX1_ALU_FROM_X(e->w) + j, 0,
                              bytes);
            }
            if (two) {
                b = ax1_bytes(m, &second, y, x, 0, bytes);
            }
            if (to == NULL || (a == NULL && op != AX1_ALU_FILL) || (two && b == NULL)) {
                return AX1_FAULT_LOCAL;
            }
            ax1_alu_pixel(m, e, &v, to, a, b);
        }
    }
    return 0;
}

/* -- POOL ------------------------------------------------------------------------------------- */

typedef struct ax1_pooled {
    float value;
    int32_t sum, positions;
} ax1_pooled;

static void ax1_pool_take(ax1_pooled *s, const uint8_t *from, int32_t c, int32_t size, int avg) {
    if (size == 4) {
        const float v = ax1_load(from, c);
        s->value = avg ? s->value + v : v > s->value ? v : s->value;
    } else {
        const int32_t v = ((const int8_t *)from)[c];
        s->sum = avg ? s->sum + v : v > s->sum ? v : s->sum;
    }
    ++s->positions;
}

static int32_t ax1_pool_code(const ax1_pooled *s, const ax1_vector *v, int avg) {
    if (!avg) {
        return s->sum;
    }
    if (v->rq == AX1_RQ_DIVIDE) {
        const int32_t half = s->positions / 2;
        return ax1_clamp((s->sum > 0 ? s->sum + half : s->sum - half) / s->positions, v->lo, v->hi);
    }
    return ax1_clamped(ax1_requantise(s->sum - s->positions * v->za, v->mult, v->shift, v->rq), v);
}

static uint32_t ax1_pool_pixel(ax1_machine *m, const ax1_entry *e, const ax1_vector *v, uint8_t *to,
                               int32_t y, int32_t x) {
    const ax1_view from = ax1_view_of(e->source);
    const ax1_kernel k = ax1_kernel_of(e->kern);
    const int32_t ch = AX1_POOL_CH(e->w), size = ax1_size(e);
    const int avg = AX1_POOL_OP(e->w) != 0;
    const float lowest = -ax1_float_of(0x7F800000);
    int32_t c, a, b;
    for (c = 0; c < ch; ++c) {
        ax1_pooled s;
        s.value = avg ? 0.0F : lowest;
        s.sum = avg ? 0 : -128;
        s.positions = 0;
        for (a = 0; a < k.kh; ++a) {
            for (b = 0; b < k.kw && y + a * k.dh >= 0 && y + a * k.dh < from.height; ++b) {
                const int32_t column = x + b * k.dw;
                const uint8_t *p;
                if (!ax1_inside(&from, y + a * k.dh, column)) {
                    continue;
                }
                p = ax1_bytes(m, &from, y + a * k.dh, column, 0, ch * size);
                if (p == NULL) {
                    return AX1_FAULT_LOCAL;
                }
                ax1_pool_take(&s, p, c, size, avg);
            }
        }
        if (s.positions == 0) {
            return AX1_FAULT_LOCAL;
        }
        if (size == 4) {
            ax1_store(to, c, avg ? s.value / (float)s.positions : s.value);
        } else {
            to[c] = (uint8_t)ax1_pool_code(&s, v, avg);
        }
    }
    return 0;
}

uint32_t AX1_NAME(exec_pool)(ax1_machine *m, const ax1_entry *e) {
    const ax1_view view = ax1_view_of(e->view);
    const ax1_kernel k = ax1_kernel_of(e->kern);
    const ax1_vector v = ax1_vector_of(e);
    const int32_t rows = AX1_POOL_ROWS(e->w), cols = AX1_POOL_COLS(e->w);
    int32_t i, j;
    for (i = 0; i < rows; ++i) {
        for (j = 0; j < cols; ++j) {
            uint8_t *to = ax1_bytes(m, &view, AX1_POOL_Y(e->w) + i, AX1_POOL_X(e->w) + j, 0,
                                    AX1_POOL_CH(e->w) * ax1_size(e));
            uint32_t fault = AX1_FAULT_LOCAL;
            if (to != NULL) {
                fault = ax1_pool_pixel(m, e, &v, to, AX1_POOL_FROM_Y(e->w) + i * k.sh,
                                       AX1_POOL_FROM_X(e->w) + j * k.sw);
            }
            if (fault != 0U) {
                return fault;
            }
        }
    }
    return 0;
}
