/* SPDX-License-Identifier: MIT-0 */
/* Firmware with two models in one arena: `motion` compares every picture with
 * the one before, which is its state; `digits` reads those that differ. They
 * never run at the same time. */
#include <string.h>

#include "board.h"
#include "digits.h"
#include "motion.h"

enum { PICTURES = 4, PIXELS = 64, CLASSES = 10 };

/* Brightness from 0 to 16, in units of DIGITS_IMAGE_SCALE. */
static const int8_t three[PIXELS] = {
    0, 0, 9, 16, 16, 12, 2, 0, 0, 3, 13, 5, 4,  14, 5,  0, 0, 0, 0, 7,  15, 2,
    0, 0, 0, 0,  0,  5,  16, 11, 0, 0, 0, 0, 0,  0,  8,  16, 7, 0, 0, 0,  0,  0,
    0, 13, 8, 0, 0,  0,  4,  5, 5, 15, 4, 0, 0,  0,  12, 16, 15, 5, 0, 0,
};
static const int8_t seven[PIXELS] = {
    0, 0,  8, 16, 14, 15, 0, 0, 0, 0, 13, 11, 15, 11, 0,  0,  0, 4, 14, 1, 13, 5,
    0, 0,  0, 3,  7,  8, 16, 4, 3, 0, 0, 0, 14, 16, 16, 13, 7, 0, 0,  0, 5,  13,
    2, 0,  0, 0,  0,  0, 6,  10, 0, 0, 0, 0, 0,  0,  10, 6,  0, 0, 0,  0,
};
static const int8_t *const pictures[PICTURES] = {three, three, seven, seven};

static motion_context seen;
static digits_context reader;

/* How much a picture differs from the one before. */
static aot_status moved(const int8_t *picture, float *motion) {
  float *image = (float *)motion_input(&seen, 0);
  aot_status status;
  int i;
  for (i = 0; i < PIXELS; ++i) {
    image[i] = (float)picture[i];
  }
  status = motion_run(&seen, NULL, NULL);
  memcpy(motion, motion_output(&seen, 0), sizeof *motion);
  return status;
}

/* The class with the largest probability. */
static aot_status read_digit(const int8_t *picture, uint32_t *digit) {
  const int8_t *probabilities;
  aot_status status;
  uint32_t i;
  memcpy(digits_input(&reader, 0), picture, PIXELS);
  status = digits_run(&reader, NULL, NULL);
  probabilities = (const int8_t *)digits_output(&reader, 0);
  *digit = 0;
  for (i = 1; i < CLASSES; ++i) {
    *digit = probabilities[i] > probabilities[*digit] ? i : *digit;
  }
  return status;
}

int main(void) {
  aot_status status = motion_init(&seen, motion_arena(), MOTION_ARENA_BYTES);
  int picture;
  if (status == AOT_OK) {
    status = digits_init(&reader, digits_arena(), DIGITS_ARENA_BYTES);
  }
  for (picture = 0; status == AOT_OK && picture < PICTURES; ++picture) {
    float motion = 0;
    uint32_t digit = 0;
    status = moved(pictures[picture], &motion);
    if (status == AOT_OK && motion > 0.5F) {
      status = read_digit(pictures[picture], &digit);
      aot_print("digit ");
      aot_print_decimal(digit);
      aot_print("\n");
    } else if (status == AOT_OK) {
      aot_print("the same\n");
    }
  }
  return status == AOT_OK ? 0 : 1;
}
