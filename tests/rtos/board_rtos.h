/* SPDX-License-Identifier: MIT-0 */
/* Between the bundle's start-up code and a kernel: handlers, a clock, an interrupt of a device. */
#ifndef BOARD_RTOS_H
#define BOARD_RTOS_H

#include <stdint.h>

/* Let the kernel's handlers be called; once, before vTaskStartScheduler. */
void board_take_over(void);

/* Ticks of configCPU_CLOCK_HZ of a timer that no kernel uses; the number wraps. */
uint32_t board_clock(void);

/* Make the device's interrupt pending. */
void board_interrupt(void);

/* Its handler, of the program. Not called in programs without a device. */
void device_interrupt(void);

#endif
