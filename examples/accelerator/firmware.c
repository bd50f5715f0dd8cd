/* SPDX-License-Identifier: MIT-0 */
/* A network on an accelerator without a kernel: the core sleeps until the
 * accelerator's interrupt, which the driver in the bundle takes. */
#include "board.h"
#include "digits.h"

/* Brightness from 0 to 1. */
static const float seven[64] = {
    0, 0, .5F, 1,   .9F, .9F, 0, 0, 0, 0, .8F, .7F, .9F, .7F, 0, 0,
    0, 0, .3F, .9F, 0,   .8F, 0, 0, 0, 0, 0,   .2F, .4F, .5F, 1, .2F,
    0, 0, 0,   .9F, 1,   1,   0, 0, 0, 0, 0,   .3F, .8F, .1F, 0, 0,
    0, 0, 0,   .4F, .6F, 0,   0, 0, 0, 0, 0,   .6F, .4F, 0,   0, 0,
};

int main(void) {
  static digits_context model;
  float chances[10];
  uint32_t digit, best = 0;
  int run;
  aot_status status = digits_init(&model, digits_arena(), DIGITS_ARENA_BYTES);
  for (run = 0; status == AOT_OK && run < 3; ++run) {
    status = digits_quantize_input(0, seven, digits_input(&model, 0));
    if (status == AOT_OK) {
      status = digits_run(&model, NULL, NULL); /* sleeps in it */
    }
    if (status == AOT_OK) {
      status = digits_dequantize_output(0, digits_output(&model, 0), chances);
    }
    for (digit = 1; status == AOT_OK && digit < 10; ++digit) {
      best = chances[digit] > chances[best] ? digit : best;
    }
  }
  aot_print(aot_status_text(status));
  aot_print(", digit ");
  aot_print_decimal(best);
  aot_print("\n");
  return status == AOT_OK ? 0 : 1;
}
