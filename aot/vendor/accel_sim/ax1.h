/* SPDX-License-Identifier: MIT-0 */
/* The registers of AX1, and the simulator that stands behind them.
 *
 * A program sees the accelerator through 32-bit registers only: AX1_READ and AX1_WRITE of
 * ax1_driver.h reach the simulator below, or the hardware's registers, by a compile-time switch.
 * Every external symbol is ax1v1_<MAC/cycle>_..., so machines and versions can be linked together.
 */
#ifndef AX1_H
#define AX1_H

#include <stdint.h>

#include "ax1_isa.h"

#ifdef __cplusplus
extern "C" {
#endif

#define AX1_GLUE2(v, macs, name) ax1v##v##_##macs##_##name
#define AX1_GLUE(v, macs, name) AX1_GLUE2(v, macs, name)
#define AX1_NAME(name) AX1_GLUE(AX1_VERSION, AX1_MACS, name)

/* Registers, by byte offset. */
#define AX1_REG_ID 0x00U        /* 'AX1' */
#define AX1_REG_CFG 0x04U       /* MAC/cycle | version << 16 */
#define AX1_REG_CTRL 0x08U      /* AX1_CTRL_... */
#define AX1_REG_STATUS 0x0CU    /* AX1_STATUS_... | fault << 8 | status of HALT << 16 */
#define AX1_REG_ENTRY 0x10U     /* byte of region 0 where the program begins */
#define AX1_REG_IRQ_CLEAR 0x14U /* any write */
#define AX1_REG_BASE(r) (0x20U + 8U * (uint32_t)(r))  /* address of a region: low, high word */
#define AX1_REG_SIZE(r) (0x60U + 4U * (uint32_t)(r))  /* its bytes */
#define AX1_REG_ATTR(r) (0x80U + 4U * (uint32_t)(r))  /* AX1_ATTR_... */
#define AX1_REG_CYCLES 0xA0U                          /* of the last program: low, high word */
#define AX1_REG_BUSY(u) (0xA8U + 4U * (uint32_t)(u))  /* cycles in which a unit computed */
#define AX1_REG_STALL(u) (0xB8U + 4U * (uint32_t)(u)) /* cycles it waited for tokens */
#define AX1_REG_FAULT_PC 0xC8U                        /* byte of region 0 */
#define AX1_REG_FAULT_ADDR 0xCCU                      /* the byte that does not exist, or 0 */
#define AX1_REG_SEED 0xD0U /* simulator: 0 in time, else any legal order */
#define AX1_REG_END 0xD4U

#define AX1_ID_VALUE 0x00315841U
#define AX1_CTRL_START 1U
#define AX1_CTRL_IRQ 2U /* interrupt when it stops */
#define AX1_CTRL_RESET 4U
#define AX1_CTRL_ABORT 8U
#define AX1_STATUS_BUSY 1U
#define AX1_STATUS_DONE 2U
#define AX1_STATUS_FAULT 4U
#define AX1_STATUS_IRQ 8U /* the interrupt is raised */
#define AX1_ATTR_FLASH 1U
#define AX1_ATTR_WRITABLE 2U
#define AX1_REGIONS 8

/* The registers of the simulated machine; offsets beyond the last read 0. */
uint32_t AX1_NAME(mmio_read)(uint32_t offset);
void AX1_NAME(mmio_write)(uint32_t offset, uint32_t value);

/* Simulated time. Not stepped (the default), a start runs to the end at once. Stepped, the machine
 * moves only in `advance`, by that many cycles: results are in memory when their time has come,
 * and the interrupt is raised then. Nothing of this is in the hardware's interface. */
void AX1_NAME(sim_stepped)(int stepped);
void AX1_NAME(sim_advance)(uint64_t cycles);

/* `raise` is called when the interrupt line goes up, with `user`: an ISR, or what makes one pending
 * in the interrupt controller. NULL: nobody. */
void AX1_NAME(sim_interrupt)(void (*raise)(void *user), void *user);

#ifdef __cplusplus
}
#endif

#endif /* AX1_H */
