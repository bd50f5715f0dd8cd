/* SPDX-License-Identifier: MIT-0 */
/* A small preemptive kernel: fixed priorities, delays, notifications. Of several tasks of one
 * priority the one that was created first runs. Functions mean what FreeRTOS's mean. */
#ifndef INC_TASK_H
#define INC_TASK_H

#include "FreeRTOS.h"

typedef enum { TASK_READY, TASK_DELAYED, TASK_WAITS } task_state;

/* Its members are private: the type is complete so that you can place it. */
typedef struct task {
    StackType_t *top;  /* of the saved registers, while the task does not run */
    StackType_t *base; /* the lowest word of the stack */
    struct task *next; /* the tasks by priority, the highest first */
    const char *name;
    UBaseType_t priority;
    TickType_t wake; /* the tick that ends a delay, or a wait that is timed */
    uint32_t notified;
    task_state state;
    uint8_t timed;
} StaticTask_t;

typedef StaticTask_t *TaskHandle_t;

TaskHandle_t xTaskCreateStatic(TaskFunction_t code, const char *name, uint32_t words,
                               void *argument, UBaseType_t priority, StackType_t *stack,
                               StaticTask_t *task);
void vTaskStartScheduler(void);
TaskHandle_t xTaskGetCurrentTaskHandle(void);
TickType_t xTaskGetTickCount(void);
void vTaskDelay(TickType_t ticks);
BaseType_t xTaskDelayUntil(TickType_t *previous, TickType_t period);
BaseType_t xTaskNotifyGive(TaskHandle_t task);
void vTaskNotifyGiveFromISR(TaskHandle_t task, BaseType_t *woken);
uint32_t ulTaskNotifyTake(BaseType_t clear, TickType_t ticks);
/* Words of the stack that were never written. */
UBaseType_t uxTaskGetStackHighWaterMark(TaskHandle_t task);
void taskENTER_CRITICAL(void);
void taskEXIT_CRITICAL(void);

/* Of the program. */
void vApplicationTickHook(void);
void vApplicationIdleHook(void);
void vApplicationStackOverflowHook(TaskHandle_t task, char *name);

#endif
