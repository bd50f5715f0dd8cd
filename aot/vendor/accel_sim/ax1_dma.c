/* SPDX-License-Identifier: MIT-0 */
/* LD, ST and LDL. */
#include "ax1_core.h"

/* Byte of element (i, j, 0) in the region. */
static int64_t ax1_element(const ax1_entry *e, int32_t i, int32_t j) {
    return (int64_t)AX1_LD_OFFSET(e->w) + (int64_t)AX1_STRD_ROW(e->strides) * i +
           (int64_t)AX1_STRD_PIXEL(e->strides) * j;
}

static void ax1_copy(uint8_t *to, const uint8_t *from, int64_t to_step, int64_t from_step,
                     int32_t count, int32_t size, uint8_t flip) {
    int32_t c, b;
    if (flip == 0U && to_step == size && from_step == size) {
        memcpy(to, from, (size_t)count * (size_t)size);
        return;
    }
    for (c = 0; c < count; ++c) {
        for (b = 0; b < size; ++b) {
            to[c * to_step + b] = (uint8_t)(from[c * from_step + b] ^ flip);
        }
    }
}

uint32_t AX1_NAME(exec_dma)(ax1_machine *m, const ax1_entry *e) {
    const ax1_view v = ax1_view_of(e->view);
    const ax1_region *r = &m->regions[AX1_LD_REGION(e->w)];
    const int store = ax1_op(e->w) == AX1_OP_ST;
    const uint8_t flip = AX1_DTYPE(e->w) == AX1_DTYPE_U8 ? 128U : 0U;
    const int32_t rows = AX1_LD_ROWS(e->w), cols = AX1_LD_COLS(e->w), ch = AX1_LD_CH(e->w);
    const int32_t size = ax1_size(e), step = AX1_STRD_CHANNEL(e->strides);
    int32_t i, j;
    if (store && (r->attr & AX1_ATTR_WRITABLE) == 0U) {
        return ax1_fail(m, AX1_FAULT_READ_ONLY, (uint32_t)AX1_LD_OFFSET(e->w));
    }
    for (i = 0; i < rows; ++i) {
        for (j = 0; j < cols; ++j) {
            const int64_t at = ax1_element(e, i, j), end = at + (int64_t)(ch - 1) * step;
            const int64_t low = at < end ? at : end, high = (at < end ? end : at) + size;
            uint8_t *local = ax1_bytes(m, &v, AX1_LD_Y(e->w) + i, AX1_LD_X(e->w) + j, 0, ch * size);
            if (local == NULL) {
                return AX1_FAULT_LOCAL;
            }
            if (low < 0 || high > (int64_t)r->size) {
                return ax1_fail(m, AX1_FAULT_REGION, (uint32_t)high);
            }
            if (store) {
                ax1_copy(r->base + at, local, step, size, ch, size, flip);
            } else {
                ax1_copy(local, r->base + at, size, step, ch, size, flip);
            }
        }
    }
    return 0;
}

static int32_t ax1_word(const uint8_t *p) {
    return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                     (uint32_t)p[3] << 24);
}

static void ax1_parameters(ax1_machine *m, const uint8_t *from, uint32_t bytes, uint32_t to,
                           uint32_t record) {
    uint32_t n;
    for (n = 0; n < bytes / record; ++n, from += record) {
        ax1_prm *p = &m->prm[(to + n) % AX1_PRM_CHANNELS];
        p->bias = ax1_word(from);
        p->mult = ax1_word(from + 4);
        p->shift = record == 9U ? (int8_t)from[8] : 0;
    }
}

uint32_t AX1_NAME(exec_linear)(ax1_machine *m, const ax1_entry *e) {
    const ax1_region *r = &m->regions[AX1_LDL_REGION(e->w)];
    const uint32_t at = (uint32_t)AX1_LDL_OFFSET(e->w), to = (uint32_t)AX1_LDL_TO(e->w);
    const uint32_t bytes = (uint32_t)AX1_LDL_BYTES(e->w), packed = (uint32_t)AX1_LDL_PACKED(e->w);
    const uint32_t read = packed != 0U ? packed : bytes;
    const int32_t memory = AX1_LDL_MEM(e->w);
    const uint8_t *from;
    uint32_t n, zeros = 0;
    if (at > r->size || read > r->size - at) {
        return ax1_fail(m, AX1_FAULT_REGION, at + read);
    }
    from = r->base + at;
    if (memory == AX1_MEM_WGT) {
        uint32_t where = to * AX1_M % AX1_WGT;
        if (packed != 0U) {
            return AX1_NAME(unpack)(m, from, packed, where, bytes, 1, &zeros);
        }
        for (n = 0; n < bytes; ++n) {
            m->wgt[where] = (int8_t)from[n];
            where = where + 1U == AX1_WGT ? 0U : where + 1U;
        }
        return 0;
    }
    if (memory == AX1_MEM_PRM) {
        ax1_parameters(m, from, bytes, to, AX1_LDL_RECORD(e->w) ? 9U : 8U);
        return 0;
    }
    if (to + bytes > (memory == AX1_MEM_LUT ? (uint32_t)AX1_LUT : (uint32_t)AX1_SPM)) {
        return ax1_fail(m, AX1_FAULT_LOCAL, to + bytes);
    }
    memcpy((memory == AX1_MEM_LUT ? m->lut : m->spm) + to, from, bytes);
    return 0;
}

/* -- Compression: see pack.py ----------------------------------------------------------------- */

typedef struct ax1_bits {
    const uint8_t *from;
    uint32_t at, end; /* bits */
} ax1_bits;

static uint32_t ax1_bit(ax1_bits *b) {
    const uint32_t at = b->at++;
    return at < b->end ? (uint32_t)(b->from[at >> 3] >> (at & 7U)) & 1U : 0U;
}

#define AX1_PEEK 25U /* bits that four bytes have at least */

/* Whether four bytes are left, and what they hold from the next bit on. */
static int ax1_peek(const ax1_bits *b, uint32_t *bits) {
    const uint32_t at = b->at;
    if (at + 32U > b->end) {
        return 0;
    }
    *bits = (uint32_t)ax1_word(b->from + (at >> 3)) >> (at & 7U);
    return 1;
}

static uint32_t ax1_take(ax1_bits *b, uint32_t count) {
    uint32_t v = 0, n, bits;
    if (ax1_peek(b, &bits)) {
        b->at += count;
        return bits & ((1U << count) - 1U);
    }
    for (n = 0; n < count; ++n) {
        v |= ax1_bit(b) << n;
    }
    return v;
}

/* One code of a block of this kind; more than 255 is none. */
static uint32_t ax1_code(ax1_bits *b, uint32_t kind) {
    uint32_t ones = 0, bits;
    if (kind == 7U) {
        const uint32_t raw = ax1_take(b, 8);
        return raw < 128U ? 2U * raw : 2U * (256U - raw) - 1U;
    }
    if (ax1_peek(b, &bits)) {
        while ((bits & 1U) != 0U) {
            bits >>= 1;
            ++ones;
        }
        if (ones + 1U + kind <= AX1_PEEK) {
            b->at += ones + 1U + kind;
            return ones << kind | (bits >> 1 & ((1U << kind) - 1U));
        }
        ones = 0;
    }
    while (ax1_bit(b) != 0U) {
        if (++ones > 255U) {
            return 256U;
        }
    }
    return ones << kind | ax1_take(b, kind);
}

uint32_t AX1_NAME(unpack)(ax1_machine *m, const uint8_t *from, uint32_t bytes, uint32_t to,
                          uint32_t count, int write, uint32_t *zeros) {
    ax1_bits b;
    uint32_t at, n;
    b.from = from;
    b.at = 0;
    b.end = 8U * bytes;
    *zeros = 0;
    for (at = 0; at < count; at += 32U) {
        const uint32_t kind = ax1_take(&b, 4), size = count - at < 32U ? count - at : 32U;
        if (kind > 8U) {
            return AX1_FAULT_PACKED;
        }
        *zeros += kind == 8U;
        for (n = 0; n < size; ++n) {
            const uint32_t code = kind == 8U ? 0U : ax1_code(&b, kind);
            if (code > 255U || b.at > b.end) {
                return AX1_FAULT_PACKED;
            }
            if (write) {
                const int32_t half = (int32_t)(code >> 1);
                m->wgt[to] = (int8_t)((code & 1U) != 0U ? -half - 1 : half);
                to = to + 1U == AX1_WGT ? 0U : to + 1U;
            }
        }
    }
    return b.at > b.end || b.end - b.at >= 8U ? AX1_FAULT_PACKED : 0U;
}
