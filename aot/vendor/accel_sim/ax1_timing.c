/* SPDX-License-Identifier: MIT-0 */
/* The cycle model: the same formulas as timing.py, instruction by instruction. */
#include "ax1_core.h"

static int32_t ax1_rate(const ax1_machine *m, int32_t region) {
    return (m->regions[region].attr & AX1_ATTR_FLASH) != 0U ? AX1_FLASH_RATE : AX1_SRAM_RATE;
}

static int32_t ax1_latency(const ax1_machine *m, int32_t region) {
    return (m->regions[region].attr & AX1_ATTR_FLASH) != 0U ? AX1_FLASH_LATENCY : AX1_SRAM_LATENCY;
}

/* LD and ST: pieces that are contiguous in the system. */
static uint64_t ax1_cost_dma(const ax1_machine *m, const ax1_entry *e) {
    const int32_t rows = AX1_LD_ROWS(e->w), cols = AX1_LD_COLS(e->w), ch = AX1_LD_CH(e->w);
    const int32_t size = ax1_size(e), pixel = ch * size;
    const int32_t to_row = AX1_STRD_ROW(e->strides), to_pixel = AX1_STRD_PIXEL(e->strides);
    const int32_t region = AX1_LD_REGION(e->w);
    int32_t rate = ax1_rate(m, region);
    int64_t number = 1, bytes = (int64_t)rows * cols * pixel, cycles;
    if (ch > 1 && AX1_STRD_CHANNEL(e->strides) != size) {
        const int joined = cols == 1 || to_pixel == size;
        rate = rate < AX1_SCATTER ? rate : AX1_SCATTER;
        number = (int64_t)rows * ch * (joined ? 1 : cols);
        bytes = joined ? (int64_t)cols * size : size;
    } else if (cols > 1 && to_pixel != pixel) {
        number = (int64_t)rows * cols;
        bytes = pixel;
    } else if (rows > 1 && to_row != cols * pixel) {
        number = rows;
        bytes = (int64_t)cols * pixel;
    }
    cycles = number * ((bytes + rate - 1) / rate) + (number > 1 ? AX1_ROW_GAP * number : 0);
    return (uint64_t)(ax1_latency(m, region) + cycles);
}

static uint64_t ax1_cost_linear(const ax1_machine *m, const ax1_entry *e) {
    const int32_t region = AX1_LDL_REGION(e->w), rate = ax1_rate(m, region);
    const int32_t latency = ax1_latency(m, region);
    const int32_t packed = AX1_LDL_PACKED(e->w), out = AX1_LDL_BYTES(e->w);
    if (packed == 0) {
        return (uint64_t)(latency + ax1_up(out, rate));
    } else {
        const uint32_t at = (uint32_t)AX1_LDL_OFFSET(e->w);
        const ax1_region *r = &m->regions[region];
        uint32_t zeros = 0;
        int32_t coded, unpack;
        if (at <= r->size && (uint32_t)packed <= r->size - at) {
            (void)AX1_NAME(unpack)(NULL, r->base + at, (uint32_t)packed, 0, (uint32_t)out, 0,
                                   &zeros);
        }
        coded = out - 32 * (int32_t)zeros;
        unpack = ax1_up(coded > 0 ? coded : 0, AX1_UNPACK_RATE) + (int32_t)zeros * AX1_ZERO_BLOCK;
        unpack = ax1_up(packed, rate) > unpack ? ax1_up(packed, rate) : unpack;
        return (uint64_t)(latency + unpack);
    }
}

static uint64_t ax1_cost_product(const ax1_entry *e) {
    const ax1_view v = ax1_view_of(e->view);
    const ax1_kernel k = ax1_kernel_of(e->kern);
    const int32_t size = ax1_size(e), deep = AX1_K / size, total = k.kh * k.kw * k.ci;
    const int32_t pixels = AX1_MM_ROWS(e->w) * AX1_MM_COLS(e->w);
    const int32_t run = k.dw == 1 && v.pixel == k.ci * size ? k.ci * k.kw : k.ci;
    uint64_t cycles = 0;
    int32_t first;
    for (first = 0; first < total; first += deep) {
        const int32_t last = (first + deep < total ? first + deep : total) - 1;
        const int32_t reads = ax1_up(last / run - first / run + 1, AX1_SEGMENTS);
        cycles += (uint64_t)(pixels * reads > AX1_K ? pixels * reads : AX1_K);
    }
    return cycles * (uint64_t)AX1_MM_TILES(e->w) + AX1_K + AX1_M;
}

static uint64_t ax1_cost_depthwise(const ax1_entry *e) {
    const int32_t most = AX1_K < AX1_DW_TAPS ? AX1_K : AX1_DW_TAPS;
    const ax1_kernel k = ax1_kernel_of(e->kern);
    const int32_t pixels = AX1_DW_ROWS(e->w) * AX1_DW_COLS(e->w);
    const int32_t passes = ax1_up(k.kh * k.kw, most / ax1_size(e));
    return (uint64_t)pixels * (uint64_t)AX1_DW_TILES(e->w) * (uint64_t)passes + AX1_DW_FILL;
}

static uint64_t ax1_cost_vector(const ax1_entry *e) {
    const uint32_t op = ax1_op(e->w);
    const int32_t size = ax1_size(e), ch = AX1_ALU_CH(e->w);
    const int32_t pixels = AX1_ALU_ROWS(e->w) * AX1_ALU_COLS(e->w);
    const int32_t alu = AX1_ALU_OP(e->w), rows = pixels * ax1_up(ch * size, AX1_PORT);
    const int32_t wide = size == 1 && AX1_VSET0_RQ(e->vset[0]) == AX1_RQ_FLOAT;
    const int32_t requant = wide ? AX1_FLOAT_FILL : 0;
    if (op == AX1_OP_DRAIN) {
        const int32_t each = ax1_up(AX1_M * (1 + AX1_DRAIN_RES(e->w)), AX1_PORT);
        return (uint64_t)(pixels * ax1_up(ch, AX1_M / size) * each + AX1_VX_FILL + requant);
    }
    if (op == AX1_OP_POOL) {
        const ax1_kernel k = ax1_kernel_of(e->kern);
        const int32_t fill = AX1_VX_FILL + (AX1_POOL_OP(e->w) ? requant : 0);
        return (uint64_t)rows * (uint64_t)(k.kh * k.kw) + (uint64_t)fill;
    }
    if (alu == AX1_ALU_SOFTMAX) {
        return (uint64_t)(pixels * (3 * ch + AX1_SOFTMAX_FILL) + AX1_VX_FILL);
    } else {
        const int one = alu == AX1_ALU_COPY || alu == AX1_ALU_CLIP || alu == AX1_ALU_LUT;
        const int32_t operands = alu == AX1_ALU_FILL ? 1 : one ? 2 : 3;
        return (uint64_t)(rows * operands + AX1_VX_FILL + (alu == AX1_ALU_MUL ? requant : 0));
    }
}

uint64_t AX1_NAME(cost)(const ax1_machine *m, const ax1_entry *e) {
    switch (ax1_op(e->w)) {
    case AX1_OP_LD:
    case AX1_OP_ST:
        return ax1_cost_dma(m, e);
    case AX1_OP_LDL:
        return ax1_cost_linear(m, e);
    case AX1_OP_MM:
        return ax1_cost_product(e);
    case AX1_OP_DW:
        return ax1_cost_depthwise(e);
    default:
        return ax1_cost_vector(e);
    }
}
