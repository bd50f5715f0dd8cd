/* SPDX-License-Identifier: MIT-0 */
/* Tasks and their notifications, as POSIX threads. Only waits of 0 and for ever. */
#ifndef TASK_H
#define TASK_H

#include "FreeRTOS.h"

#include <pthread.h>

typedef struct task {
    pthread_t thread;
    TaskFunction_t code;
    void *argument;
    uint32_t notified;
} StaticTask_t;
typedef StaticTask_t *TaskHandle_t;

TaskHandle_t xTaskCreateStatic(TaskFunction_t code, const char *name, uint32_t words,
                               void *argument, UBaseType_t priority, StackType_t *stack,
                               StaticTask_t *task);
TaskHandle_t xTaskGetCurrentTaskHandle(void);
BaseType_t xTaskNotifyGive(TaskHandle_t task);
uint32_t ulTaskNotifyTake(BaseType_t clear, TickType_t ticks);
void vTaskDelay(TickType_t ticks);
void taskENTER_CRITICAL(void);
void taskEXIT_CRITICAL(void);

#endif
