/* SPDX-License-Identifier: MIT-0 */
#define _POSIX_C_SOURCE 200809L
#include "task.h"

#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t critical = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static _Thread_local TaskHandle_t current;

static void *begin(void *task) {
    current = task;
    current->code(current->argument);
    return NULL;
}

TaskHandle_t xTaskCreateStatic(TaskFunction_t code, const char *name, uint32_t words,
                               void *argument, UBaseType_t priority, StackType_t *stack,
                               StaticTask_t *task) {
    (void)name, (void)priority;
    stack[words - 1] = 0; /* as long as is said */
    task->code = code;
    task->argument = argument;
    return pthread_create(&task->thread, NULL, begin, task) == 0 ? task : NULL;
}

TaskHandle_t xTaskGetCurrentTaskHandle(void) {
    return current;
}

BaseType_t xTaskNotifyGive(TaskHandle_t task) {
    pthread_mutex_lock(&lock);
    task->notified++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return pdTRUE;
}

uint32_t ulTaskNotifyTake(BaseType_t clear, TickType_t ticks) {
    uint32_t count;
    pthread_mutex_lock(&lock);
    while (current->notified == 0 && ticks != 0) {
        pthread_cond_wait(&changed, &lock);
    }
    count = current->notified;
    current->notified = clear || count == 0 ? 0 : count - 1;
    pthread_mutex_unlock(&lock);
    return count;
}

void vTaskDelay(TickType_t ticks) {
    struct timespec time = {ticks / 1000, (long)(ticks % 1000) * 1000000};
    nanosleep(&time, NULL);
}

void taskENTER_CRITICAL(void) {
    pthread_mutex_lock(&critical);
}

void taskEXIT_CRITICAL(void) {
    pthread_mutex_unlock(&critical);
}
