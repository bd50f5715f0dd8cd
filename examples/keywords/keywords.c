/* SPDX-License-Identifier: MIT-0 */
/* Keywords in the style of FreeRTOS: a task of high priority puts sound into a
 * ring, a task of low priority takes windows out of it and runs the network. */
#include <string.h>

#include "FreeRTOS.h"
#include "board.h"
#include "keywords.h"
#include "task.h"

enum { RATE = 16, RING = 1024, WINDOW = 256, PIECES = 8, END = 500 };

void keywords_start(void);

/* -- The ring: the microphone alone moves `written`, the listener `read`. -- */

static int16_t ring[RING];
static volatile uint32_t written, read_;
static volatile uint32_t lost; /* samples for which there was no room */

static StackType_t microphone_stack[256], listener_stack[512];
static StaticTask_t microphone_task, listener_task;
static TaskHandle_t listener;

/* A microphone's stand-in: silence, a low tone, silence, a high tone, silence;
 * 100 ms each. */
static int16_t sound(uint32_t sample) {
  const uint32_t part = sample / (100 * RATE);
  const uint32_t half = part == 1 ? 32 : 4; /* samples of half a period */
  if (part != 1 && part != 3) {
    return 0;
  }
  return sample / half % 2 == 0 ? 1000 : -1000;
}

static void microphone(void *unused) {
  TickType_t due = xTaskGetTickCount();
  uint32_t sample = 0;
  (void)unused;
  for (;;) {
    int i;
    (void)xTaskDelayUntil(&due, 1);
    for (i = 0; i < RATE; ++i, ++sample) {
      if (written - read_ == RING) {
        ++lost;
      } else {
        ring[written % RING] = sound(sample);
        ++written;
      }
    }
    if (sample % WINDOW == 0) {
      (void)xTaskNotifyGive(listener);
    }
  }
}

/* Loudness and crossings of zero for each piece of the window. */
static void describe(float *pieces) {
  int piece, i;
  int16_t before = 0;
  for (piece = 0; piece < PIECES; ++piece) {
    int32_t loud = 0, crossings = 0;
    for (i = 0; i < WINDOW / PIECES; ++i) {
      const int16_t now = ring[read_ % RING];
      loud += now < 0 ? -now : now;
      crossings += (now < 0) != (before < 0);
      before = now;
      ++read_;
    }
    *pieces++ = (float)loud / (1000.0F * (WINDOW / PIECES));
    *pieces++ = (float)crossings;
  }
}

static void listen(void *unused) {
  static const char *const words[] = {"silence", "low", "high"};
  static keywords_context model;
  int heard = -1;
  aot_status status =
      keywords_init(&model, keywords_arena(), KEYWORDS_ARENA_BYTES);
  (void)unused;
  while (status == AOT_OK && xTaskGetTickCount() < END) {
    const float *chances;
    int best = 0, i;
    (void)ulTaskNotifyTake(pdTRUE, portMAX_DELAY);
    describe((float *)keywords_input(&model, 0));
    status = keywords_run(&model, NULL, NULL);
    chances = (const float *)keywords_output(&model, 0);
    for (i = 1; i < 3; ++i) {
      best = chances[i] > chances[best] ? i : best;
    }
    if (best != heard) {
      aot_print(words[best]);
      aot_print("\n");
      heard = best;
    }
  }
  aot_print(status == AOT_OK ? "samples lost: " : aot_status_text(status));
  aot_print_decimal(lost);
  aot_print("\n");
  aot_exit(status != AOT_OK);
}

/* Before vTaskStartScheduler. */
void keywords_start(void) {
  listener = xTaskCreateStatic(listen, "listener", 512, NULL, 1, listener_stack,
                               &listener_task);
  (void)xTaskCreateStatic(microphone, "microphone", 256, NULL, 2,
                          microphone_stack, &microphone_task);
}
