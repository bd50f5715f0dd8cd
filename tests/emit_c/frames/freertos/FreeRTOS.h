/* SPDX-License-Identifier: MIT-0 */
/* Types of FreeRTOS, for a kernel of POSIX threads. */
#ifndef FREERTOS_H
#define FREERTOS_H

#include <stdint.h>

typedef long BaseType_t;
typedef unsigned long UBaseType_t;
typedef uint32_t TickType_t;
typedef uintptr_t StackType_t;
typedef void (*TaskFunction_t)(void *);

#define pdTRUE 1
#define portMAX_DELAY UINT32_MAX
#define pdMS_TO_TICKS(ms) ((TickType_t)(ms))
#define configMINIMAL_STACK_SIZE 128
#define tskIDLE_PRIORITY 0

#endif
