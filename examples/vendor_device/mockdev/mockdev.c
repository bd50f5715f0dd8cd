/* SPDX-License-Identifier: MIT-0 */
#include "mockdev.h"

#include <stdlib.h>
#include <string.h>

#define QUEUE 512

typedef struct mock {
    unsigned char *memory;
    int32_t count;
    mockdev_compute_params queue[QUEUE];
} mock;

aot_status mockdev_open(void **device, const mockdev_open_params *p) {
    mock *made = (mock *)calloc(1, sizeof *made);
    if (made == NULL)
        return AOT_VENDOR;
    made->memory = (unsigned char *)calloc(1, (size_t)p->bytes);
    *device = made;
    return made->memory == NULL ? AOT_VENDOR : AOT_OK;
}

void mockdev_close(void **device) {
    mock *made = (mock *)*device;
    if (made != NULL)
        free(made->memory);
    free(made);
    *device = NULL;
}

static void compute(unsigned char *memory, const mockdev_compute_params *p) {
    const float *a = (const float *)(memory + p->a), *b = (const float *)(memory + p->b);
    float *y = (float *)(memory + p->y);
    int32_t i;
    for (i = 0; i < p->n; ++i)
        y[i] = p->op == 0   ? a[i] + b[i]
               : p->op == 1 ? a[i] - b[i]
               : p->op == 2 ? a[i] * b[i]
               : p->op == 3 ? (a[i] < 0.0F ? 0.0F : a[i])
                            : -a[i];
}

/* Run everything queued. */
static void drain(mock *m) {
    int32_t i;
    for (i = 0; i < m->count; ++i)
        compute(m->memory, &m->queue[i]);
    m->count = 0;
}

aot_status mockdev_upload(void **device, const void *from, const mockdev_upload_params *p) {
    mock *m = (mock *)*device;
    drain(m);
    memcpy(m->memory + p->at, from, (size_t)p->bytes);
    return AOT_OK;
}

aot_status mockdev_compute(void **device, const mockdev_compute_params *p) {
    mock *m = (mock *)*device;
    if (m->count == QUEUE)
        return AOT_VENDOR;
    m->queue[m->count++] = *p;
    return AOT_OK;
}

aot_status mockdev_download(void **device, void *to, const mockdev_download_params *p) {
    mock *m = (mock *)*device;
    drain(m);
    memcpy(to, m->memory + p->at, (size_t)p->bytes);
    return AOT_OK;
}
