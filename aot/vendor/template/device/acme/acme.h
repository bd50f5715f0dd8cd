/* SPDX-License-Identifier: MIT-0 */
#ifndef ACME_H
#define ACME_H

#include <stdint.h>

#include "aot/aot.h"

typedef struct acme_open_params {
    int32_t bytes;
} acme_open_params;

typedef struct acme_upload_params {
    int32_t at; /* byte in the device's memory */
    int32_t bytes;
} acme_upload_params;

typedef acme_upload_params acme_download_params;

/* Addresses of y, a and b in the device's memory. */
typedef struct acme_add_params {
    int32_t n;
    int32_t relu;
    int32_t y;
    int32_t a;
    int32_t b;
} acme_add_params;

/* The device, with p->bytes bytes of its memory. AOT_VENDOR if it has less. */
aot_status acme_open(void **device, const acme_open_params *p);
void acme_close(void **device);

aot_status acme_upload(void **device, const void *from, const acme_upload_params *p);
/* Puts y = a + b into the device's queue. */
aot_status acme_add(void **device, const acme_add_params *p);
/* Awaits the queue, then copies. */
aot_status acme_download(void **device, void *to, const acme_download_params *p);

#endif
