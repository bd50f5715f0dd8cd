/* SPDX-License-Identifier: MIT-0 */
/* A motor's watchdog whose weights come over the air. Two slots of flash hold
 * the weights in use and the new ones. New weights are taken if their
 * signature, their checksum (NAME_set_weights) and a trial run are good; else
 * the firmware goes on with the old ones. */
#include <string.h>

#include "anomaly.h"
#include "board.h"

/* Files that a build of the model or the radio gives, here parts of the image.
 */
#define FILE_IN_FLASH(name, path)                                              \
  __asm__(".section .rodata." #name ",\"a\"\n.balign 16\n.global " #name       \
          "\n" #name ": .incbin \"" path "\"\n.previous\n");                   \
  extern const unsigned char name[ANOMALY_WEIGHTS_BYTES]

FILE_IN_FLASH(shipped, SHIPPED);
FILE_IN_FLASH(update, UPDATE);
FILE_IN_FLASH(worse, WORSE);

typedef struct parcel {
  AOT_ALIGNED(ANOMALY_WEIGHTS_ALIGN)
  unsigned char weights[ANOMALY_WEIGHTS_BYTES];
  uint32_t signature;
} parcel;

static parcel slots[2];
static int used; /* the slot of the weights in use */
static anomaly_context model;

/* The hook for your cryptography: this keyed sum only shows where it belongs.
 * Put Ed25519 or an HMAC here. */
static uint32_t sign(const unsigned char *data, size_t bytes) {
  uint32_t sum = 0x5EC2E7U;
  while (bytes-- > 0) {
    sum = (sum ^ *data++) * 0x01000193U;
  }
  return sum;
}

/* How unusual the energies are, in hundredths; -1 without a result. */
static int32_t score(const float *energies) {
  float found;
  memcpy(anomaly_input(&model, 0), energies, 8 * sizeof(float));
  if (anomaly_run(&model, NULL, NULL) != AOT_OK) {
    return -1;
  }
  memcpy(&found, anomaly_output(&model, 0), sizeof found);
  return (int32_t)(100.0F * found);
}

static const float usual[8] = {4, 3, 2, 1, 1, 0, 0, 0};
static const float whistling[8] = {4, 3, 2, 1, 1, 3, 0, 0};
static const float broken[8] = {9, 0, 7, 0, 8, 0, 9, 0};

/* Let the model use the weights of a slot. Weights change between init and the
 * first run only. */
static aot_status use(int slot) {
  aot_status status =
      anomaly_init(&model, anomaly_arena(), ANOMALY_ARENA_BYTES);
  if (status == AOT_OK) {
    status =
        anomaly_set_weights(&model, slots[slot].weights, ANOMALY_WEIGHTS_BYTES);
  }
  return status;
}

/* What this motor must sound like under any weights. */
static int trial(void) {
  return score(usual) >= 0 && score(usual) < 200 && score(broken) > 1000;
}

static const char *take(const unsigned char *weights, uint32_t signature) {
  const int spare = 1 - used;
  const char *said = "taken";
  memcpy(slots[spare].weights, weights, ANOMALY_WEIGHTS_BYTES);
  slots[spare].signature = signature;
  if (sign(slots[spare].weights, ANOMALY_WEIGHTS_BYTES) != signature) {
    return "refused: the signature is wrong";
  }
  if (use(spare) != AOT_OK) {
    said = "refused: other weights, or damaged ones";
  } else if (!trial()) {
    said = "rolled back: the trial failed";
  } else {
    used = spare;
    return said;
  }
  return use(used) == AOT_OK ? said : "the old weights are lost";
}

static void report(const char *event) {
  aot_print(event);
  aot_print("; whistling ");
  aot_print_decimal((uint32_t)score(whistling));
  aot_print(", broken ");
  aot_print_decimal((uint32_t)score(broken));
  aot_print("\n");
}

int main(void) {
  static unsigned char damaged[ANOMALY_WEIGHTS_BYTES];
  memcpy(slots[0].weights, shipped, ANOMALY_WEIGHTS_BYTES);
  if (use(0) != AOT_OK) {
    return 1;
  }
  report("shipped");
  memcpy(damaged, update, ANOMALY_WEIGHTS_BYTES);
  damaged[ANOMALY_WEIGHTS_BYTES - 9] ^= 4;
  report(take(damaged, sign(update, ANOMALY_WEIGHTS_BYTES)));
  report(take(damaged, sign(damaged, ANOMALY_WEIGHTS_BYTES)));
  report(take(worse, sign(worse, ANOMALY_WEIGHTS_BYTES)));
  report(take(update, sign(update, ANOMALY_WEIGHTS_BYTES)));
  return used == 1 ? 0 : 1;
}
