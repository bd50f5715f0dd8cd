/* SPDX-License-Identifier: MIT-0 */
/* One run of digits: the input from stdin, the output to stdout. */
#include <stdio.h>

#include "digits_data.h"

AOT_ALIGNED(DIGITS_ARENA_ALIGN) static unsigned char arena[DIGITS_ARENA_BYTES];
static float image[DIGITS_INPUT0_ELEMENTS], chances[DIGITS_OUTPUT0_ELEMENTS];

int main(void) {
    digits_context context;
    const void *in[] = {image};
    void *out[] = {chances};
    if (fread(image, sizeof image, 1, stdin) != 1 ||
        digits_init(&context, arena, sizeof arena) != AOT_OK ||
        digits_run_data(&context, in, out) != AOT_OK) {
        return 1;
    }
    return fwrite(chances, sizeof chances, 1, stdout) != 1;
}
