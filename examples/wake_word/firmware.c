/* SPDX-License-Identifier: MIT-0 */
/* A wake word without a kernel. The device sleeps until it is sure of the word,
 * listens for a command, and forgets what it heard before it sleeps again. */
#include <string.h>

#include "board.h"
#include "wake.h"

enum { COMMAND_FRAMES = 6 };

typedef enum device { ASLEEP, AWAKE } device;

typedef struct frame {
  float loudness, pitch;
} frame;

/* A microphone's stand-in: noise, one loud bang, the word, a command, noise. */
static frame sound(int number) {
  static const frame noise = {0.1F, 0.2F}, bang = {1, 1}, word = {0.9F, 0.9F},
                     command = {0.8F, 0.1F};
  if (number == 5) {
    return bang;
  }
  if (number >= 12 && number < 18) {
    return word;
  }
  return number >= 18 && number < 21 ? command : noise;
}

static wake_context model;

/* How sure the network is after another frame. */
static aot_status hear(frame now, float *certainty) {
  float *input = (float *)wake_input(&model, 0);
  aot_status status;
  input[0] = now.loudness;
  input[1] = now.pitch;
  status = wake_run(&model, NULL, NULL);
  memcpy(certainty, wake_output(&model, 0), sizeof *certainty);
  return status;
}

int main(void) {
  device now = ASLEEP;
  int number, left = 0, loud = 0;
  aot_status status = wake_init(&model, wake_arena(), WAKE_ARENA_BYTES);
  for (number = 0; status == AOT_OK && number < 32; ++number) {
    float certainty = 0;
    const frame heard = sound(number);
    if (now == ASLEEP) {
      status = hear(heard, &certainty);
      if (certainty > 0.6F) {
        aot_print("awake at frame ");
        aot_print_decimal((uint32_t)number);
        aot_print("\n");
        now = AWAKE;
        left = COMMAND_FRAMES;
        loud = 0;
      }
    } else {
      loud += heard.loudness > 0.5F;
      if (--left == 0) {
        aot_print(loud > 2 ? "command\n" : "nothing said\n");
        now = ASLEEP;
        status = wake_reset_state(&model);
      }
    }
  }
  aot_print(now == ASLEEP ? "asleep\n" : "awake\n");
  return status == AOT_OK ? 0 : 1;
}
