/* SPDX-License-Identifier: MIT-0 */
/* A network beside a control loop of 1 kHz that must never be late. WAY says how the network runs:
 *
 *   RUN     net_run in a task of low priority, which the loop's task interrupts
 *   STEP    net_step between two beats, in the loop's own task
 *   DEVICE  net_run in a task that sleeps while AX1 computes and is woken by its interrupt
 *   BLIND   as RUN, but interrupts are held back for longer than a beat: the count sees late ones
 *
 * The network's stack has NET_STACK_BYTES, the registers that the kernel keeps there, and what the
 * function of the task itself takes. Every result is compared with that of a run before the kernel
 * starts. After BEATS beats the program prints what it found. */
#include <stddef.h>
#include <string.h>

#include "FreeRTOS.h"
#include "task.h"

#include "board.h"
#include "board_rtos.h"
#include "net.h"
#include "sample.h" /* const unsigned char sample[]; RESULT_BYTES */

#define RUN 1
#define STEP 2
#define DEVICE 3
#define BLIND 4

#if WAY == BLIND
#undef BEATS
#define BEATS 100U
#endif

/* Registers of a task that is interrupted, at most: with those of the FPU. */
#if defined(__riscv)
#define CONTEXT_BYTES 128
#elif defined(__ARM_FP)
#define CONTEXT_BYTES 208
#else
#define CONTEXT_BYTES 72
#endif
#define OWN_BYTES 64 /* of the task's function */

#ifndef NET_STACK_BYTES /* code of a vendor is measured, not bounded */
#define NET_STACK_BYTES 1024
#endif
#define NET_WORDS ((NET_STACK_BYTES + CONTEXT_BYTES + OWN_BYTES + 15) / 16 * 4)
#define PERIOD (configCPU_CLOCK_HZ / configTICK_RATE_HZ)

static net_context context;
static unsigned char expected[RESULT_BYTES];
static uint32_t runs, wrong;

static StackType_t net_stack[NET_WORDS];
static StaticTask_t net_task;
static TaskHandle_t net_handle;

/* -- The beat -------------------------------------------------------------------------------------
 */

static uint32_t beats, late, worst; /* worst: ticks of the clock from when a beat is due */
static uint32_t origin;             /* the clock at tick 0 */
static float level;                 /* what the loop controls */

/* Say when the ticks began: the clock is independent of the kernel's timer. */
void vApplicationTickHook(void) {
    if (xTaskGetTickCount() <= 1 && origin == 0) {
        origin = board_clock() - PERIOD;
    }
}

static void report(const char *name, uint32_t value) {
    aot_print(name);
    aot_print_decimal(value);
}

static void finish(void) {
    uint32_t byte;
    const uint32_t unused = (uint32_t)uxTaskGetStackHighWaterMark(net_handle) * sizeof(StackType_t);
    report("beats ", beats);
    report(" late ", late);
    report(" worst_ns ", (uint32_t)((uint64_t)worst * 1000000000U / configCPU_CLOCK_HZ));
    report(" runs ", runs);
    report(" wrong ", wrong);
    report(" stack ", (uint32_t)sizeof net_stack);
    report(" unused ", unused);
    aot_print(" result ");
    for (byte = 0; byte < RESULT_BYTES; ++byte) {
        aot_print_hex(expected[byte]);
        aot_print(" ");
    }
    aot_print("\n");
    aot_exit(0);
}

/* One beat: the loop's computation, and how long after its time it happened. Late is a beat that
 * begins when the next one is due. */
static void beat(uint32_t number) {
    const uint32_t behind = board_clock() - (origin + number * PERIOD);
    late += behind >= PERIOD;
    worst = behind > worst ? behind : worst;
    level += 0.25F * (1.0F - level);
    if (++beats == BEATS) {
        finish();
    }
}

/* -- The network ----------------------------------------------------------------------------------
 */

static void ended(aot_status status) {
    if (status != AOT_OK) {
        aot_print(aot_status_text(status));
        aot_exit(1);
    }
    ++runs;
    wrong += memcmp(net_output(&context, 0), expected, RESULT_BYTES) != 0;
}

static void fill(void) {
    memcpy(net_input(&context, 0), sample, sizeof sample);
}

#if WAY == STEP

static void loop(void *unused) {
    TickType_t done = xTaskGetTickCount();
    (void)unused;
    fill();
    for (;;) {
        aot_status status;
        while (done != xTaskGetTickCount()) {
            beat(++done);
        }
        status = net_step(&context, NULL, NULL, 0); /* one slice */
        if (status != AOT_MORE) {
            ended(status);
            fill();
        }
    }
}

static void start(void) {
    net_handle = xTaskCreateStatic(loop, "loop", NET_WORDS, NULL, 1, net_stack, &net_task);
}

#else

static StackType_t beat_stack[256];
static StaticTask_t beat_task;

static void control(void *unused) {
    TickType_t due = xTaskGetTickCount();
    (void)unused;
    for (;;) {
        (void)xTaskDelayUntil(&due, 1);
        beat(due);
    }
}

static void network(void *unused) {
    (void)unused;
    for (;;) {
        fill();
#if WAY == BLIND
        taskENTER_CRITICAL();
#endif
        ended(net_run(&context, NULL, NULL));
#if WAY == BLIND
        taskEXIT_CRITICAL();
#endif
    }
}

static void start(void) {
    (void)xTaskCreateStatic(control, "control", 256, NULL, 3, beat_stack, &beat_task);
    net_handle = xTaskCreateStatic(network, "network", NET_WORDS, NULL, 2, net_stack, &net_task);
}

#endif

/* -- The accelerator ------------------------------------------------------------------------------
 */

#if WAY == DEVICE

#include "ax1_driver.h"
#include "ax1_task.h"

static StackType_t machine_stack[1024];
static StaticTask_t machine_task;
static TaskHandle_t machine_handle;

/* The simulated machine computes where a chip would beside the core: in a task that all others
 * interrupt. */
static void machine(void *unused) {
    (void)unused;
    for (;;) {
        (void)ulTaskNotifyTake(pdTRUE, portMAX_DELAY);
        while ((AX1_READ(AX1_REG_STATUS) & AX1_STATUS_BUSY) != 0) {
            AX1_NAME(sim_advance)(64);
        }
        board_interrupt();
    }
}

void machine_prepare(void) {
    AX1_NAME(sim_stepped)(machine_handle != NULL); /* not in the run before the kernel starts */
}

void machine_started(void) {
    if (machine_handle != NULL) {
        (void)xTaskNotifyGive(machine_handle);
    }
}

void machine_wait(void) {
    (void)ulTaskNotifyTake(pdTRUE, portMAX_DELAY);
}

void device_interrupt(void) {
    BaseType_t woken = pdFALSE;
    AX1_NAME(driver_isr)();
    vTaskNotifyGiveFromISR(net_handle, &woken);
    portYIELD_FROM_ISR(woken);
}

static void start_machine(void) {
    machine_handle =
        xTaskCreateStatic(machine, "machine", 1024, NULL, 1, machine_stack, &machine_task);
}

#else

static void start_machine(void) {}

#endif

/* -- Start ----------------------------------------------------------------------------------------
 */

void vApplicationIdleHook(void) {
    __asm__ volatile("wfi");
}

void vApplicationStackOverflowHook(TaskHandle_t task, char *name) {
    (void)task;
    aot_print("the stack of ");
    aot_print(name);
    aot_print(" is too small\n");
    aot_exit(1);
}

int main(void) {
    aot_status status = net_init(&context, net_arena(), NET_ARENA_BYTES);
    if (status == AOT_OK) {
        fill();
        status = net_run(&context, NULL, NULL);
    }
    if (status != AOT_OK) {
        aot_print(aot_status_text(status));
        return 1;
    }
    memcpy(expected, net_output(&context, 0), RESULT_BYTES);
    board_take_over();
    start();
    start_machine();
    vTaskStartScheduler();
    return 1;
}
