/* SPDX-License-Identifier: MIT-0 */
/* Types and settings of the tests' kernel, by FreeRTOS's names: a program compiles against either.
 */
#ifndef INC_FREERTOS_H
#define INC_FREERTOS_H

#include <stdint.h>

#include "FreeRTOSConfig.h"

typedef long BaseType_t;
typedef unsigned long UBaseType_t;
typedef uint32_t TickType_t;
typedef uint32_t StackType_t;
typedef void (*TaskFunction_t)(void *argument);

#define pdFALSE 0
#define pdTRUE 1
#define portMAX_DELAY UINT32_MAX
#define pdMS_TO_TICKS(ms) ((TickType_t)(ms)*configTICK_RATE_HZ / 1000U)
#define tskIDLE_PRIORITY 0

/* At the end of an interrupt handler: switch now if a task of higher priority was woken. */
#define portYIELD_FROM_ISR(woken) ((woken) != pdFALSE ? kernel_yield() : (void)0)

void kernel_yield(void);

#endif
