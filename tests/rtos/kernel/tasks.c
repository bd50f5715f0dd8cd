/* SPDX-License-Identifier: MIT-0 */
#include "kernel.h"

#include <stddef.h>

#define PAINT 0xA5A5A5A5U /* of stacks; their lowest word keeps it, or the stack was too small */

static StaticTask_t boot; /* what main() was */
static StaticTask_t *first, *current = &boot;
static volatile TickType_t ticks;
static uint32_t depth; /* of critical sections */

static StaticTask_t idle_task;
static StackType_t idle_stack[configMINIMAL_STACK_SIZE];

static StaticTask_t *highest(void) {
    StaticTask_t *task = first;
    while (task->state != TASK_READY) {
        task = task->next;
    }
    return task;
}

/* Switch if `task`, which has just become ready, comes before the current one. */
static void prefer(const StaticTask_t *task) {
    if (task->priority > current->priority && current != &boot) {
        kernel_yield();
    }
}

/* -- Critical sections ---------------------------------------------------------------------------
 */

void taskENTER_CRITICAL(void) {
    port_mask();
    ++depth;
}

void taskEXIT_CRITICAL(void) {
    if (--depth == 0) {
        port_unmask();
    }
}

/* -- Tasks ----------------------------------------------------------------------------------------
 */

TaskHandle_t xTaskCreateStatic(TaskFunction_t code, const char *name, uint32_t words,
                               void *argument, UBaseType_t priority, StackType_t *stack,
                               StaticTask_t *task) {
    StaticTask_t **place = &first;
    uint32_t word;
    for (word = 0; word < words; ++word) {
        stack[word] = PAINT;
    }
    task->base = stack;
    task->top = port_frame(stack + words, code, argument, stack);
    task->name = name;
    task->priority = priority;
    task->state = TASK_READY;
    task->notified = 0;
    task->timed = 0;
    taskENTER_CRITICAL();
    while (*place != NULL && (*place)->priority >= priority) {
        place = &(*place)->next;
    }
    task->next = *place;
    *place = task;
    taskEXIT_CRITICAL();
    prefer(task);
    return task;
}

static void idle(void *unused) {
    (void)unused;
    for (;;) {
        vApplicationIdleHook();
    }
}

void vTaskStartScheduler(void) {
    (void)xTaskCreateStatic(idle, "idle", configMINIMAL_STACK_SIZE, NULL, tskIDLE_PRIORITY,
                            idle_stack, &idle_task);
    port_start();
}

TaskHandle_t xTaskGetCurrentTaskHandle(void) {
    return current;
}

UBaseType_t uxTaskGetStackHighWaterMark(TaskHandle_t task) {
    const StackType_t *word = task->base;
    while (*word == PAINT) {
        ++word;
    }
    return (UBaseType_t)(word - task->base);
}

const StackType_t *kernel_limit(void) {
    return current->base;
}

StackType_t *kernel_switch(StackType_t *top) {
    current->top = top;
    if (current != &boot && (top < current->base || *current->base != PAINT)) {
        vApplicationStackOverflowHook(current, (char *)(uintptr_t)current->name);
    }
    current = highest();
    return current->top;
}

/* -- Time -----------------------------------------------------------------------------------------
 */

TickType_t xTaskGetTickCount(void) {
    return ticks;
}

int kernel_tick(void) {
    StaticTask_t *task;
    ++ticks;
    for (task = first; task != NULL; task = task->next) {
        if (task->state != TASK_READY && task->timed && task->wake == ticks) {
            task->state = TASK_READY;
        }
    }
    vApplicationTickHook();
    return highest() != current;
}

/* The current task stops until `wake`, if it is timed, or until something makes it ready. */
static void stop(task_state state, uint8_t timed, TickType_t wake) {
    current->timed = timed;
    current->wake = wake;
    current->state = state;
}

void vTaskDelay(TickType_t delay) {
    TickType_t now = ticks;
    (void)xTaskDelayUntil(&now, delay);
}

BaseType_t xTaskDelayUntil(TickType_t *previous, TickType_t period) {
    int ahead;
    taskENTER_CRITICAL();
    *previous += period;
    ahead = (int32_t)(*previous - ticks) > 0;
    if (ahead) {
        stop(TASK_DELAYED, 1, *previous);
    }
    taskEXIT_CRITICAL();
    if (ahead) {
        kernel_yield();
    }
    return ahead;
}

/* -- Notifications --------------------------------------------------------------------------------
 */

/* Gives whether the task was made ready by it. */
static int notify(StaticTask_t *task) {
    const int waited = task->state == TASK_WAITS;
    ++task->notified;
    if (waited) {
        task->state = TASK_READY;
    }
    return waited;
}

BaseType_t xTaskNotifyGive(TaskHandle_t task) {
    int woken;
    taskENTER_CRITICAL();
    woken = notify(task);
    taskEXIT_CRITICAL();
    if (woken) {
        prefer(task);
    }
    return pdTRUE;
}

/* Handlers do not interrupt each other: all have the lowest priority. */
void vTaskNotifyGiveFromISR(TaskHandle_t task, BaseType_t *woken) {
    if (notify(task) && task->priority > current->priority && woken != NULL) {
        *woken = pdTRUE;
    }
}

uint32_t ulTaskNotifyTake(BaseType_t clear, TickType_t delay) {
    uint32_t count;
    taskENTER_CRITICAL();
    if (current->notified == 0 && delay != 0) {
        stop(TASK_WAITS, delay != portMAX_DELAY, ticks + delay);
        taskEXIT_CRITICAL();
        kernel_yield();
        taskENTER_CRITICAL();
    }
    count = current->notified;
    current->notified = clear || count == 0 ? 0 : count - 1;
    taskEXIT_CRITICAL();
    return count;
}
