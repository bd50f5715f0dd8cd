/* SPDX-License-Identifier: MIT-0 */
/* Two runs of digits by its task: the input from stdin, the output to stdout. */
#include <stdio.h>
#include <stdlib.h>

#include "digits_task.h"

void example_start(void);

static float image[DIGITS_INPUT0_ELEMENTS], chances[DIGITS_OUTPUT0_ELEMENTS];
static StackType_t stack[256];
static StaticTask_t control;

static void ask(void *first) {
    const void *in[] = {image};
    void *out[] = {chances};
    int wrong = first == NULL;
    for (int i = 0; i < 2; i++) {
        wrong |= digits_task_submit(in, out) != AOT_OK;
        wrong |= digits_task_wait(portMAX_DELAY) != AOT_OK;
        wrong |= digits_task_wait(0) != AOT_BUSY;
    }
    wrong |= fwrite(chances, sizeof chances, 1, stdout) != 1;
    fflush(stdout);
    _Exit(wrong);
}

int main(void) {
    const void *in[] = {image};
    void *out[] = {chances};
    if (fread(image, sizeof image, 1, stdin) != 1 ||
        digits_task_submit(in, out) != AOT_NOT_INIT || digits_task_start(1) != AOT_OK) {
        return 1;
    }
    (void)xTaskCreateStatic(ask, "ask", 256, image, 1, stack, &control);
    (void)pthread_join(control.thread, NULL);
    example_start(); /* of the package: linked, not reached */
    return 1;
}
