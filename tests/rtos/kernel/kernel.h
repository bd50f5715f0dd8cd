/* SPDX-License-Identifier: MIT-0 */
/* Between tasks.c and the code of a core. */
#ifndef KERNEL_H
#define KERNEL_H

#include "task.h"

/* -- Of the core -- */

/* Lay the registers of a task that has not run yet at the end of its stack; gives their top. */
StackType_t *port_frame(StackType_t *end, TaskFunction_t code, void *argument,
                        const StackType_t *base);
/* Start the tick and the first task. */
void port_start(void);
/* Hold interrupts back; let them through. */
void port_mask(void);
void port_unmask(void);

/* -- Of tasks.c -- */

/* Leave the task whose registers are at `top`; gives the registers of the task to go on with.
 * Interrupts are held back. */
StackType_t *kernel_switch(StackType_t *top);
/* A tick has passed. Gives whether another task should run. Interrupts are held back. */
int kernel_tick(void);
/* The lowest word of the current task's stack. */
const StackType_t *kernel_limit(void);

#endif
