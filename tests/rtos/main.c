/* SPDX-License-Identifier: MIT-0 */
/* Starts the tasks of an example; START is its function. */
#include "FreeRTOS.h"
#include "task.h"

#include "board.h"
#include "board_rtos.h"

void START(void);

void vApplicationTickHook(void) {}

void vApplicationIdleHook(void) {
    __asm__ volatile("wfi");
}

void vApplicationStackOverflowHook(TaskHandle_t task, char *name) {
    (void)task;
    aot_print(name);
    aot_exit(1);
}

int main(void) {
    board_take_over();
    START();
    vTaskStartScheduler();
    return 1;
}
