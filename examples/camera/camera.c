/* SPDX-License-Identifier: MIT-0 */
/* Firmware that reads digits from a camera, line by line: no picture is ever in
 * memory.
 *
 * camera_line stands for the camera's driver; two pictures are in flash here. A
 * real driver calls digits_int8_push_rows with the buffer that DMA has filled,
 * while the next line comes in.
 */
#include "board.h"
#include "digits_int8.h"

enum { PICTURES = 2, SIZE = DIGITS_INT8_PUSH_ROWS, CLASSES = 10 };

static const int8_t pictures[PICTURES][SIZE][SIZE] = {
    {
        {0, 0, 9, 16, 16, 12, 2, 0},
        {0, 3, 13, 5, 4, 14, 5, 0},
        {0, 0, 0, 0, 7, 15, 2, 0},
        {0, 0, 0, 5, 16, 11, 0, 0},
        {0, 0, 0, 0, 8, 16, 7, 0},
        {0, 0, 0, 0, 0, 13, 8, 0},
        {0, 0, 4, 5, 5, 15, 4, 0},
        {0, 0, 12, 16, 15, 5, 0, 0},
    },
    {
        {0, 0, 8, 16, 14, 15, 0, 0},
        {0, 0, 13, 11, 15, 11, 0, 0},
        {0, 4, 14, 1, 13, 5, 0, 0},
        {0, 3, 7, 8, 16, 4, 3, 0},
        {0, 0, 14, 16, 16, 13, 7, 0},
        {0, 0, 5, 13, 2, 0, 0, 0},
        {0, 0, 6, 10, 0, 0, 0, 0},
        {0, 0, 10, 6, 0, 0, 0, 0},
    },
};

/* The next line of a picture: brightness from 0 to 16, in units of
 * DIGITS_INT8_IMAGE_SCALE. */
static void camera_line(int8_t *line, int picture, int row) {
  int i;
  for (i = 0; i < SIZE; ++i) {
    line[i] = pictures[picture][row][i];
  }
}

/* The class with the largest probability. */
static uint32_t best(const int8_t *probabilities) {
  uint32_t found = 0, i;
  for (i = 1; i < CLASSES; ++i) {
    found = probabilities[i] > probabilities[found] ? i : found;
  }
  return found;
}

int main(void) {
  digits_int8_context context;
  int picture, row;
  aot_status status =
      digits_int8_init(&context, digits_int8_arena(), DIGITS_INT8_ARENA_BYTES);
  for (picture = 0; status == AOT_OK && picture < PICTURES; ++picture) {
    status = AOT_MORE;
    for (row = 0; status == AOT_MORE; ++row) {
      int8_t line[SIZE];
      camera_line(line, picture, row);
      status = digits_int8_push_rows(&context, line, 1);
    }
    if (status == AOT_OK) {
      aot_print("digit ");
      aot_print_decimal(best((const int8_t *)digits_int8_output(&context, 0)));
      aot_print("\n");
      status = digits_int8_abort(
          &context); /* the next line is the first of a picture */
    }
  }
  return status == AOT_OK ? 0 : 1;
}
