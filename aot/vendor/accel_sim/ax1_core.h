/* SPDX-License-Identifier: MIT-0 */
/* The state of the simulated machine: used by the ax1_*.c only. */
#ifndef AX1_CORE_H
#define AX1_CORE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ax1.h"

#define AX1_WGT_ROWS (AX1_WGT / AX1_M)
#define AX1_ACC_ROWS (AX1_ACC / (4 * AX1_M))
#define AX1_PRM_CHANNELS (AX1_PRM / 16)
#define AX1_UNITS 4
#define AX1_NEVER UINT64_MAX

typedef struct ax1_region {
    uint8_t *base;
    uint32_t size, attr;
} ax1_region;

typedef struct ax1_prm {
    int32_t bias, mult, shift;
} ax1_prm;

/* An instruction in a queue, with the words of what its slots held: the view of its result (or
 * only one), of its operand, of its second operand or residual. */
typedef struct ax1_entry {
    uint32_t w[4], view[4], source[4], other[4], kern[4], strides[4], vset[3][4];
    uint32_t pc;
    uint64_t cost, dispatched;
} ax1_entry;

typedef struct ax1_unit {
    ax1_entry queue[AX1_QUEUE];
    uint64_t ends[AX1_QUEUE]; /* when the last ones completed, by number */
    uint64_t given, done;     /* numbers of instructions */
    uint64_t free, busy, stalled;
    int priced; /* the cost of the first in the queue is known */
} ax1_unit;

/* Tokens of one unit for another, with the time when each was given. */
typedef struct ax1_tokens {
    uint64_t at[AX1_MAX_TOKENS + 1];
    uint32_t first, count;
} ax1_tokens;

typedef struct ax1_loop {
    uint32_t begin, left;
} ax1_loop;

typedef struct ax1_machine {
    uint8_t spm[AX1_SPM];
    int8_t wgt[AX1_WGT];
    int32_t acc[AX1_ACC_ROWS][AX1_M];
    ax1_prm prm[AX1_PRM_CHANNELS];
    uint8_t lut[AX1_LUT];
    ax1_region regions[AX1_REGIONS];
    ax1_unit units[AX1_UNITS];
    ax1_tokens tokens[AX1_UNITS][AX1_UNITS]; /* [giver][taker] */
    uint32_t views[AX1_VIEWS][4], kernels[AX1_KERNELS][4], strides[AX1_STRIDES][4];
    uint32_t vsets[AX1_VSETS][3][4], registers[AX1_REGISTERS];
    ax1_loop loops[AX1_MAX_LOOPS];
    uint32_t depth, pc;
    uint64_t fetched, next, issued, issues[AX1_PREFETCH]; /* times of the front end */
    uint64_t now;
    uint32_t seed, fault, fault_pc, fault_addr, status, running, irq;
} ax1_machine;

typedef struct ax1_view {
    int32_t base, pixel, row, ring, height, width, pad;
} ax1_view;

typedef struct ax1_kernel {
    int32_t kh, kw, sh, sw, dh, dw, ci;
} ax1_kernel;

static inline int32_t ax1_up(int32_t a, int32_t b) {
    return (a + b - 1) / b;
}

static inline uint32_t ax1_op(const uint32_t *w) {
    return w[0] & 63U;
}

static inline int32_t ax1_size(const ax1_entry *e) {
    return AX1_DTYPE(e->w) == AX1_DTYPE_F32 ? 4 : 1;
}

static inline ax1_view ax1_view_of(const uint32_t *w) {
    ax1_view v;
    v.base = AX1_VIEW_BASE(w);
    v.pixel = AX1_VIEW_PIXEL(w);
    v.row = AX1_VIEW_ROW(w);
    v.ring = AX1_VIEW_RING(w);
    v.height = AX1_VIEW_HEIGHT(w);
    v.width = AX1_VIEW_WIDTH(w);
    v.pad = AX1_VIEW_PAD(w);
    return v;
}

static inline ax1_kernel ax1_kernel_of(const uint32_t *w) {
    ax1_kernel k;
    k.kh = AX1_KERN_KH(w);
    k.kw = AX1_KERN_KW(w);
    k.sh = AX1_KERN_SH(w);
    k.sw = AX1_KERN_SW(w);
    k.dh = AX1_KERN_DH(w);
    k.dw = AX1_KERN_DW(w);
    k.ci = AX1_KERN_CI(w);
    return k;
}

static inline int ax1_inside(const ax1_view *v, int32_t y, int32_t x) {
    return y >= 0 && y < v->height && x >= 0 && x < v->width;
}

/* The byte of a pixel of the view. */
static inline int64_t ax1_pixel(const ax1_view *v, int32_t y, int32_t x) {
    const int32_t line = v->ring > 0 ? y % v->ring : y;
    return (int64_t)v->base + (int64_t)v->row * line + (int64_t)v->pixel * x;
}

static inline uint32_t ax1_fail(ax1_machine *m, uint32_t fault, uint32_t address) {
    m->fault_addr = address;
    return fault;
}

/* `bytes` bytes of a pixel of the view from its byte `at` on; NULL and a fault where it is not. */
static inline uint8_t *ax1_bytes(ax1_machine *m, const ax1_view *v, int32_t y, int32_t x,
                                 int32_t at, int32_t bytes) {
    const int64_t where = ax1_inside(v, y, x) ? ax1_pixel(v, y, x) + at : -1;
    if (where < 0 || where + bytes > AX1_SPM) {
        m->fault_addr = where < 0 ? 0U : (uint32_t)(where + bytes);
        return NULL;
    }
    return m->spm + where;
}

/* The words of the instruction at m->pc, moved by the address registers, and its unit; 0 or a
 * fault. */
uint32_t AX1_NAME(decode)(const ax1_machine *m, uint32_t *w, uint32_t *unit);

/* Whether a region that may be written shares bytes with another one (ax1_decode.c). */
int AX1_NAME(shared)(const ax1_machine *m);

/* Cycles of an instruction (ax1_timing.c). */
uint64_t AX1_NAME(cost)(const ax1_machine *m, const ax1_entry *e);

/* Execution: 0 or a fault. */
uint32_t AX1_NAME(exec_dma)(ax1_machine *m, const ax1_entry *e);
uint32_t AX1_NAME(exec_linear)(ax1_machine *m, const ax1_entry *e);
uint32_t AX1_NAME(exec_product)(ax1_machine *m, const ax1_entry *e);
uint32_t AX1_NAME(exec_depthwise)(ax1_machine *m, const ax1_entry *e);
uint32_t AX1_NAME(exec_drain)(ax1_machine *m, const ax1_entry *e);
uint32_t AX1_NAME(exec_alu)(ax1_machine *m, const ax1_entry *e);
uint32_t AX1_NAME(exec_pool)(ax1_machine *m, const ax1_entry *e);

/* Decompression of `count` weights from `bytes` bytes to m->wgt, from its byte `to` on (a ring;
 * ax1_dma.c). `write` 0 only counts blocks of zeros, to *zeros. */
uint32_t AX1_NAME(unpack)(ax1_machine *m, const uint8_t *from, uint32_t bytes, uint32_t to,
                          uint32_t count, int write, uint32_t *zeros);

#endif /* AX1_CORE_H */
