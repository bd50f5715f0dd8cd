/* SPDX-License-Identifier: MIT-0 */
/* Instructions as they are in memory: what they may be, and which unit they are for. */
#include "ax1_core.h"

typedef struct ax1_row {
    uint32_t opcode, unit, dtypes, used[4];
} ax1_row;

#define AX1_ROW(opcode, unit, dtypes, a, b, c, d) {opcode, unit, dtypes, {a, b, c, d}},
static const ax1_row ax1_rows[] = {AX1_TABLE(AX1_ROW)};

static const ax1_row *ax1_find(uint32_t opcode) {
    size_t i;
    for (i = 0; i < sizeof ax1_rows / sizeof ax1_rows[0]; ++i) {
        if (ax1_rows[i].opcode == opcode) {
            return &ax1_rows[i];
        }
    }
    return NULL;
}

/* Values that no instruction has. */
static uint32_t ax1_check_values(const uint32_t *w) {
    const uint32_t op = ax1_op(w);
    const int f32 = AX1_DTYPE(w) == AX1_DTYPE_F32;
    if (op == AX1_OP_LDL) {
        const int32_t memory = AX1_LDL_MEM(w);
        if (memory > AX1_MEM_LUT || (AX1_LDL_PACKED(w) != 0 && memory != AX1_MEM_WGT)) {
            return AX1_FAULT_FIELD;
        }
    } else if (op == AX1_OP_ALU) {
        const int32_t alu = AX1_ALU_OP(w);
        const int codes_only = alu == AX1_ALU_LUT || alu == AX1_ALU_SOFTMAX;
        if (alu > AX1_ALU_SOFTMAX || (f32 && codes_only)) {
            return AX1_FAULT_FIELD;
        }
    } else if (op == AX1_OP_DRAIN && (AX1_DRAIN_LUT(w) > 4 || (f32 && AX1_DRAIN_LUT(w) != 0))) {
        return AX1_FAULT_FIELD;
    } else if (f32 && (op == AX1_OP_MM || op == AX1_OP_DW) && AX1_MM_AT(w) % 4 != 0) {
        return AX1_FAULT_FIELD;
    }
    return 0;
}

static uint32_t ax1_check(const uint32_t *w, const ax1_row *row) {
    int n;
    if (row == NULL) {
        return AX1_FAULT_OPCODE;
    }
    for (n = 0; n < 4; ++n) {
        if ((w[n] & ~row->used[n]) != 0U) {
            return AX1_FAULT_RESERVED;
        }
    }
    if (row->unit != AX1_UNIT_FE) {
        const uint32_t both = (uint32_t)(AX1_WAIT(w) | AX1_SIGNAL(w));
        if ((both >> row->unit & 1U) != 0U || (row->dtypes >> AX1_DTYPE(w) & 1U) == 0U) {
            return AX1_FAULT_FIELD;
        }
    }
    return ax1_check_values(w);
}

/* The words of the instruction at pc, moved by the address registers. */
static uint32_t ax1_read_words(const ax1_machine *m, uint32_t *w) {
    const ax1_region *r = &m->regions[0];
    const uint8_t *from;
    int n;
    if (m->pc > r->size || r->size - m->pc < AX1_BYTES) {
        return AX1_FAULT_STREAM;
    }
    from = r->base + m->pc;
    for (n = 0; n < 4; ++n, from += 4) {
        w[n] = (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
               (uint32_t)from[3] << 24;
    }
    if (ax1_op(w) >= AX1_OP_LD) {
        w[1] += m->registers[AX1_R1(w)];
        w[2] += m->registers[AX1_R2(w)];
        w[3] += m->registers[AX1_R3(w)];
    }
    return 0;
}

uint32_t AX1_NAME(decode)(const ax1_machine *m, uint32_t *w, uint32_t *unit) {
    uint32_t fault = ax1_read_words(m, w);
    if (fault == 0U) {
        const ax1_row *row = ax1_find(ax1_op(w));
        fault = ax1_check(w, row);
        *unit = row != NULL ? row->unit : AX1_UNIT_FE;
    }
    return fault;
}

int AX1_NAME(shared)(const ax1_machine *m) {
    int a, b;
    for (a = 0; a < AX1_REGIONS; ++a) {
        for (b = 0; b < AX1_REGIONS; ++b) {
            const uint64_t from = (uint64_t)(uintptr_t)m->regions[a].base;
            const uint64_t other = (uint64_t)(uintptr_t)m->regions[b].base;
            if (a != b && (m->regions[a].attr & AX1_ATTR_WRITABLE) != 0U &&
                m->regions[a].size != 0U && m->regions[b].size != 0U &&
                from < other + m->regions[b].size && other < from + m->regions[a].size) {
                return 1;
            }
        }
    }
    return 0;
}
