/* SPDX-License-Identifier: MIT-0 */
/* A mock device: memory of its own, a queue of commands that runs when it is awaited, not before.
 */
#ifndef MOCKDEV_H
#define MOCKDEV_H

#include <stdint.h>

#include "aot/aot.h"

typedef struct mockdev_open_params {
    int32_t bytes;
} mockdev_open_params;

typedef struct mockdev_upload_params {
    int32_t at; /* byte in the device's memory */
    int32_t bytes;
} mockdev_upload_params;

typedef mockdev_upload_params mockdev_download_params;

typedef struct mockdev_compute_params {
    int32_t op; /* 0: a + b, 1: a - b, 2: a * b, 3: max(a, 0), 4: -a */
    int32_t n;
    int32_t a;
    int32_t b;
    int32_t y;
} mockdev_compute_params;

aot_status mockdev_open(void **device, const mockdev_open_params *p);
void mockdev_close(void **device);

/* Puts a command into the queue. */
aot_status mockdev_compute(void **device, const mockdev_compute_params *p);

/* Await the queue, then copy: the host's memory is free, or holds the result, when they return. */
aot_status mockdev_upload(void **device, const void *from, const mockdev_upload_params *p);
aot_status mockdev_download(void **device, void *to, const mockdev_download_params *p);

#endif
