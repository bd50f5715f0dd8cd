/* SPDX-License-Identifier: MIT-0 */
/* The simulated machine: registers, front end, queues, tokens and time.
 *
 * Time is counted by events: the front end hands out an instruction, a unit completes one. Of all
 * that can happen next the earliest does, so memory is in every moment what it would be. With a
 * seed any of them does, which is every order that the tokens allow. */
#include "ax1_core.h"

static ax1_machine ax1;
static struct {
    void (*raise)(void *user);
    void *user;
    int stepped;
    uint32_t ctrl, entry, seed, status;
    uint32_t base[AX1_REGIONS][2], size[AX1_REGIONS], attr[AX1_REGIONS];
} ax1_regs;

static uint64_t ax1_max(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* -- Front end -------------------------------------------------------------------------------- */

static void ax1_stop(ax1_machine *m, uint32_t fault, uint32_t pc) {
    m->running = 0;
    m->fault = fault;
    m->fault_pc = pc;
    m->irq = (ax1_regs.ctrl & AX1_CTRL_IRQ) != 0U;
    if (m->irq && ax1_regs.raise != NULL) {
        ax1_regs.raise(ax1_regs.user);
    }
}

static void ax1_registers(ax1_machine *m, const uint32_t *w, int add) {
    const int32_t which[3] = {AX1_R1(w), AX1_R2(w), AX1_R3(w)};
    int n;
    for (n = 0; n < 3; ++n) {
        if (which[n] != 0) {
            m->registers[which[n]] = (add ? m->registers[which[n]] : 0U) + w[n + 1];
        }
    }
}

/* A loop ends or goes on: the next pc. */
static uint32_t ax1_end_loop(ax1_machine *m, const uint32_t *w) {
    ax1_loop *loop = &m->loops[m->depth - 1U];
    ax1_registers(m, w, 1);
    if (--loop->left != 0U) {
        return loop->begin;
    }
    --m->depth;
    return m->pc + AX1_BYTES;
}

/* What the front end does itself; 0 or a fault. */
static uint32_t ax1_control(ax1_machine *m, const uint32_t *w) {
    uint32_t next = m->pc + AX1_BYTES;
    switch (ax1_op(w)) {
    case AX1_OP_LOOP:
        if (m->depth == AX1_MAX_LOOPS) {
            return AX1_FAULT_LOOPS;
        }
        m->loops[m->depth].begin = next;
        m->loops[m->depth++].left = (uint32_t)AX1_LOOP_COUNT(w);
        break;
    case AX1_OP_ENDL:
        if (m->depth == 0U) {
            return AX1_FAULT_LOOPS;
        }
        next = ax1_end_loop(m, w);
        break;
    case AX1_OP_SETA:
        ax1_registers(m, w, 0);
        break;
    case AX1_OP_VIEW:
        memcpy(m->views[AX1_VIEW_SLOT(w)], w, AX1_BYTES);
        break;
    case AX1_OP_KERN:
        memcpy(m->kernels[AX1_KERN_SLOT(w)], w, AX1_BYTES);
        break;
    case AX1_OP_STRD:
        memcpy(m->strides[AX1_STRD_SLOT(w)], w, AX1_BYTES);
        break;
    case AX1_OP_VSET0:
    case AX1_OP_VSET1:
    case AX1_OP_VSET2:
        memcpy(m->vsets[AX1_VSET0_SLOT(w)][ax1_op(w) - AX1_OP_VSET0], w, AX1_BYTES);
        break;
    default: /* HALT, FENCE: only time */
        break;
    }
    m->pc = next;
    return 0;
}

/* The slots that an instruction names, as they are now. */
static void ax1_capture(const ax1_machine *m, ax1_entry *e) {
    const uint32_t *w = e->w;
    memcpy(e->view, m->views[AX1_DRAIN_VIEW(w)], AX1_BYTES);
    switch (ax1_op(w)) {
    case AX1_OP_LD:
    case AX1_OP_ST:
        memcpy(e->view, m->views[AX1_LD_VIEW(w)], AX1_BYTES);
        memcpy(e->strides, m->strides[AX1_LD_STRIDES(w)], AX1_BYTES);
        break;
    case AX1_OP_MM:
    case AX1_OP_DW:
        memcpy(e->kern, m->kernels[AX1_MM_KERN(w)], AX1_BYTES);
        break;
    case AX1_OP_DRAIN:
        memcpy(e->other, m->views[AX1_DRAIN_RES_VIEW(w)], AX1_BYTES);
        memcpy(e->vset, m->vsets[AX1_DRAIN_VSET(w)], sizeof e->vset);
        break;
    default:
        memcpy(e->source, m->views[AX1_ALU_FROM_VIEW(w)], AX1_BYTES);
        memcpy(e->other, m->views[AX1_ALU_B_VIEW(w)], AX1_BYTES);
        memcpy(e->kern, m->kernels[AX1_POOL_KERN(w)], AX1_BYTES);
        memcpy(e->vset, m->vsets[AX1_ALU_VSET(w)], sizeof e->vset);
        break;
    }
}

/* When the next instruction has been fetched; the prefetcher runs 4 instructions ahead. */
static uint64_t ax1_fetched(const ax1_machine *m) {
    const int flash = (m->regions[0].attr & AX1_ATTR_FLASH) != 0U;
    const uint64_t rate = flash ? AX1_FLASH_RATE : AX1_SRAM_RATE;
    const uint64_t begin =
        m->issued > 0 ? m->fetched : (uint64_t)(flash ? AX1_FLASH_LATENCY : AX1_SRAM_LATENCY);
    const uint64_t room = m->issued >= AX1_PREFETCH ? m->issues[m->issued % AX1_PREFETCH] : 0U;
    return ax1_max(begin, room) + (AX1_BYTES + rate - 1U) / rate;
}

/* Units that HALT or FENCE waits for. */
static uint32_t ax1_awaited(const uint32_t *w) {
    return ax1_op(w) == AX1_OP_HALT    ? 15U
           : ax1_op(w) == AX1_OP_FENCE ? (uint32_t)AX1_FENCE_UNITS(w)
                                       : 0U;
}

/* When the front end can handle the next instruction; AX1_NEVER if something must happen first. */
static uint64_t ax1_front_time(const ax1_machine *m) {
    uint32_t w[4];
    uint64_t at = ax1_max(ax1_fetched(m), m->next);
    uint32_t to = AX1_UNIT_FE;
    int u;
    if (AX1_NAME(decode)(m, w, &to) != 0U) {
        return at; /* the fault */
    }
    if (to != AX1_UNIT_FE) {
        const ax1_unit *unit = &m->units[to];
        if (unit->given - unit->done == AX1_QUEUE) {
            return AX1_NEVER;
        }
        return unit->given < AX1_QUEUE ? at : ax1_max(at, unit->ends[unit->given % AX1_QUEUE]);
    }
    for (u = 0; u < AX1_UNITS; ++u) {
        if ((ax1_awaited(w) >> u & 1U) != 0U) {
            if (m->units[u].given != m->units[u].done) {
                return AX1_NEVER;
            }
            at = ax1_max(at, m->units[u].free);
        }
    }
    return at;
}

static void ax1_halt(ax1_machine *m, const uint32_t *w) {
    int a, b;
    for (a = 0; a < AX1_UNITS; ++a) {
        for (b = 0; b < AX1_UNITS; ++b) {
            if (m->tokens[a][b].count != 0U) {
                ax1_stop(m, ax1_fail(m, AX1_FAULT_LEFT, 0), m->pc);
                return;
            }
        }
    }
    m->status = (uint32_t)AX1_HALT_STATUS(w);
    ax1_stop(m, AX1_FAULT_NONE, m->pc);
}

static void ax1_front(ax1_machine *m, uint64_t at) {
    uint32_t w[4] = {0, 0, 0, 0}, to = AX1_UNIT_FE;
    uint32_t fault = AX1_NAME(decode)(m, w, &to);
    if (fault == 0U && to != AX1_UNIT_FE) {
        ax1_unit *unit = &m->units[to];
        ax1_entry *e = &unit->queue[unit->given % AX1_QUEUE];
        memset(e, 0, sizeof *e);
        memcpy(e->w, w, sizeof w);
        e->pc = m->pc;
        e->dispatched = at;
        ax1_capture(m, e);
        ++unit->given;
        m->pc += AX1_BYTES;
    } else if (fault == 0U) {
        fault = ax1_control(m, w);
    }
    m->fetched = ax1_fetched(m);
    m->issues[m->issued++ % AX1_PREFETCH] = at;
    m->next = at + 1U;
    m->now = ax1_max(m->now, m->next);
    if (fault != 0U) {
        ax1_stop(m, ax1_fail(m, fault, 0), m->pc);
    } else if (ax1_op(w) == AX1_OP_HALT) {
        m->pc -= AX1_BYTES;
        ax1_halt(m, w);
    }
}

/* -- Units ------------------------------------------------------------------------------------ */

/* When the first in the queue of a unit can start by its tokens; AX1_NEVER if one is missing. */
static uint64_t ax1_tokens_time(const ax1_machine *m, int u, const ax1_entry *e) {
    uint64_t at = 0;
    int p;
    for (p = 0; p < AX1_UNITS; ++p) {
        if ((AX1_WAIT(e->w) >> p & 1) != 0) {
            const ax1_tokens *t = &m->tokens[p][u];
            if (t->count == 0U) {
                return AX1_NEVER;
            }
            at = ax1_max(at, t->at[t->first]);
        }
    }
    return at;
}

/* When a unit could complete what is first in its queue. */
static uint64_t ax1_unit_time(ax1_machine *m, int u, uint64_t *start) {
    ax1_unit *unit = &m->units[u];
    ax1_entry *e = &unit->queue[unit->done % AX1_QUEUE];
    uint64_t at;
    if (unit->given == unit->done) {
        return AX1_NEVER;
    }
    at = ax1_tokens_time(m, u, e);
    if (at == AX1_NEVER) {
        return AX1_NEVER;
    }
    if (!unit->priced) {
        e->cost = AX1_NAME(cost)(m, e);
        unit->priced = 1;
    }
    *start = ax1_max(at, ax1_max(e->dispatched, unit->free));
    return *start + e->cost;
}

static uint32_t ax1_execute(ax1_machine *m, const ax1_entry *e) {
    m->fault_addr = 0;
    switch (ax1_op(e->w)) {
    case AX1_OP_LD:
    case AX1_OP_ST:
        return AX1_NAME(exec_dma)(m, e);
    case AX1_OP_LDL:
        return AX1_NAME(exec_linear)(m, e);
    case AX1_OP_MM:
        return AX1_NAME(exec_product)(m, e);
    case AX1_OP_DW:
        return AX1_NAME(exec_depthwise)(m, e);
    case AX1_OP_DRAIN:
        return AX1_NAME(exec_drain)(m, e);
    case AX1_OP_ALU:
        return AX1_NAME(exec_alu)(m, e);
    default:
        return AX1_NAME(exec_pool)(m, e);
    }
}

/* Takes and gives the tokens of an instruction that completes at `end`; 0 or a fault. */
static uint32_t ax1_exchange(ax1_machine *m, int u, const ax1_entry *e, uint64_t end) {
    int o;
    for (o = 0; o < AX1_UNITS; ++o) {
        ax1_tokens *in = &m->tokens[o][u];
        if ((AX1_WAIT(e->w) >> o & 1) != 0) {
            in->first = (in->first + 1U) % (AX1_MAX_TOKENS + 1U);
            --in->count;
        }
    }
    for (o = 0; o < AX1_UNITS; ++o) {
        ax1_tokens *out = &m->tokens[u][o];
        if ((AX1_SIGNAL(e->w) >> o & 1) != 0) {
            if (out->count == AX1_MAX_TOKENS) {
                return AX1_FAULT_TOKENS;
            }
            out->at[(out->first + out->count++) % (AX1_MAX_TOKENS + 1U)] = end;
        }
    }
    return 0;
}

static void ax1_complete(ax1_machine *m, int u, uint64_t start, uint64_t end) {
    ax1_unit *unit = &m->units[u];
    ax1_entry *e = &unit->queue[unit->done % AX1_QUEUE];
    uint32_t fault = ax1_execute(m, e);
    if (fault == 0U) {
        fault = ax1_exchange(m, u, e, end);
    }
    unit->stalled += start - ax1_max(e->dispatched, unit->free);
    unit->busy += e->cost;
    unit->free = end;
    unit->ends[unit->done % AX1_QUEUE] = end;
    unit->priced = 0;
    ++unit->done;
    m->now = ax1_max(m->now, end);
    if (fault != 0U) {
        ax1_stop(m, fault, e->pc);
    }
}

/* -- Time ------------------------------------------------------------------------------------- */

static uint32_t ax1_random(ax1_machine *m) {
    m->seed ^= m->seed << 13;
    m->seed ^= m->seed >> 17;
    m->seed ^= m->seed << 5;
    return m->seed;
}

/* Everything that happens up to `until`. */
static void ax1_run(ax1_machine *m, uint64_t until) {
    if (m->running && m->fault != 0U) { /* found at the start */
        ax1_stop(m, m->fault, m->pc);
    }
    while (m->running) {
        uint64_t times[AX1_UNITS + 1], starts[AX1_UNITS] = {0, 0, 0, 0};
        int best = -1, possible = 0, n;
        for (n = 0; n < AX1_UNITS; ++n) {
            times[n] = ax1_unit_time(m, n, &starts[n]);
        }
        times[AX1_UNITS] = ax1_front_time(m);
        for (n = 0; n <= AX1_UNITS; ++n) {
            if (times[n] == AX1_NEVER) {
                continue;
            }
            ++possible;
            if (m->seed != 0U ? ax1_random(m) % (uint32_t)possible == 0U
                              : best < 0 || times[n] < times[best]) {
                best = n;
            }
        }
        if (best < 0) {
            ax1_stop(m, ax1_fail(m, AX1_FAULT_DEADLOCK, 0), m->pc);
        } else if (times[best] > until) {
            return;
        } else if (best == AX1_UNITS) {
            ax1_front(m, times[best]);
        } else {
            ax1_complete(m, best, starts[best], times[best]);
        }
    }
}

static void ax1_start(ax1_machine *m) {
    int n;
    memset(&m->units, 0, sizeof m->units);
    memset(m->tokens, 0, sizeof m->tokens);
    memset(m->views, 0, sizeof m->views);
    memset(m->kernels, 0, sizeof m->kernels);
    memset(m->strides, 0, sizeof m->strides);
    memset(m->vsets, 0, sizeof m->vsets);
    memset(m->registers, 0, sizeof m->registers);
    for (n = 0; n < AX1_REGIONS; ++n) {
        const uint64_t address = (uint64_t)ax1_regs.base[n][1] << 32 | ax1_regs.base[n][0];
        m->regions[n].base = (uint8_t *)(uintptr_t)address;
        m->regions[n].size = address != 0U ? ax1_regs.size[n] : 0U;
        m->regions[n].attr = ax1_regs.attr[n];
    }
    m->depth = 0;
    m->pc = ax1_regs.entry;
    m->fetched = m->next = m->issued = m->now = 0;
    m->fault_pc = m->fault_addr = m->status = m->irq = 0;
    m->fault = AX1_NAME(shared)(m) ? AX1_FAULT_REGION : AX1_FAULT_NONE;
    m->seed = ax1_regs.seed;
    m->running = 1;
    ax1_regs.status = 1; /* there has been a program */
}

/* -- Registers -------------------------------------------------------------------------------- */

static uint64_t ax1_elapsed; /* since the start of a stepped program */

static uint32_t ax1_status(const ax1_machine *m) {
    if (m->running) {
        return AX1_STATUS_BUSY;
    }
    if (ax1_regs.status == 0U) {
        return 0;
    }
    return (m->fault != 0U ? AX1_STATUS_FAULT : AX1_STATUS_DONE) | (m->irq ? AX1_STATUS_IRQ : 0U) |
           m->fault << 8 | m->status << 16;
}

uint32_t AX1_NAME(mmio_read)(uint32_t offset) {
    const ax1_machine *m = &ax1;
    const uint32_t n = offset >= 0xB8U ? (offset - 0xB8U) / 4U : (offset - 0xA8U) / 4U;
    if (offset >= AX1_REG_BASE(0) && offset < AX1_REG_SIZE(0)) {
        return ax1_regs.base[(offset - 0x20U) / 8U][offset / 4U % 2U];
    }
    if (offset >= AX1_REG_SIZE(0) && offset < AX1_REG_ATTR(0)) {
        return ax1_regs.size[(offset - 0x60U) / 4U];
    }
    if (offset >= AX1_REG_ATTR(0) && offset < AX1_REG_CYCLES) {
        return ax1_regs.attr[(offset - 0x80U) / 4U];
    }
    if (offset >= AX1_REG_BUSY(0) && offset < AX1_REG_FAULT_PC) {
        return (uint32_t)(offset < AX1_REG_STALL(0) ? m->units[n].busy : m->units[n].stalled);
    }
    switch (offset) {
    case AX1_REG_ID:
        return AX1_ID_VALUE;
    case AX1_REG_CFG:
        return (uint32_t)AX1_MACS | (uint32_t)AX1_VERSION << 16;
    case AX1_REG_CTRL:
        return ax1_regs.ctrl;
    case AX1_REG_STATUS:
        return ax1_status(m);
    case AX1_REG_ENTRY:
        return ax1_regs.entry;
    case AX1_REG_CYCLES:
        return (uint32_t)m->now;
    case AX1_REG_CYCLES + 4U:
        return (uint32_t)(m->now >> 32);
    case AX1_REG_FAULT_PC:
        return m->fault_pc;
    case AX1_REG_FAULT_ADDR:
        return m->fault_addr;
    case AX1_REG_SEED:
        return ax1_regs.seed;
    default:
        return 0;
    }
}

static void ax1_control_register(uint32_t value) {
    ax1_regs.ctrl = value & AX1_CTRL_IRQ;
    if ((value & AX1_CTRL_RESET) != 0U) {
        memset(&ax1, 0, sizeof ax1);
        ax1_regs.status = 0;
    }
    if ((value & AX1_CTRL_ABORT) != 0U && ax1.running) {
        ax1_stop(&ax1, AX1_FAULT_ABORTED, ax1.pc);
    }
    if ((value & AX1_CTRL_START) != 0U && !ax1.running) {
        ax1_start(&ax1);
        ax1_elapsed = 0;
        if (!ax1_regs.stepped) {
            ax1_run(&ax1, AX1_NEVER - 1U);
        }
    }
}

void AX1_NAME(mmio_write)(uint32_t offset, uint32_t value) {
    if (offset == AX1_REG_CTRL) {
        ax1_control_register(value);
    } else if (offset == AX1_REG_IRQ_CLEAR) {
        ax1.irq = 0;
    } else if (ax1.running) {
        return; /* the rest holds still while it runs */
    } else if (offset >= AX1_REG_BASE(0) && offset < AX1_REG_SIZE(0)) {
        ax1_regs.base[(offset - 0x20U) / 8U][offset / 4U % 2U] = value;
    } else if (offset >= AX1_REG_SIZE(0) && offset < AX1_REG_ATTR(0)) {
        ax1_regs.size[(offset - 0x60U) / 4U] = value;
    } else if (offset >= AX1_REG_ATTR(0) && offset < AX1_REG_CYCLES) {
        ax1_regs.attr[(offset - 0x80U) / 4U] = value;
    } else if (offset == AX1_REG_ENTRY) {
        ax1_regs.entry = value;
    } else if (offset == AX1_REG_SEED) {
        ax1_regs.seed = value;
    }
}

void AX1_NAME(sim_stepped)(int stepped) {
    ax1_regs.stepped = stepped;
}

void AX1_NAME(sim_advance)(uint64_t cycles) {
    static volatile int inside; /* a timer's interrupt may come while somebody polls */
    if (ax1.running && !inside) {
        inside = 1;
        ax1_elapsed += cycles;
        ax1_run(&ax1, ax1_elapsed);
        inside = 0;
    }
}

void AX1_NAME(sim_interrupt)(void (*raise)(void *user), void *user) {
    ax1_regs.raise = raise;
    ax1_regs.user = user;
}
