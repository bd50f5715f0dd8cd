/* SPDX-License-Identifier: MIT-0 */
/* A stand-in for the engine: it reads the plan that compiler.py describes. */
#include "acme.h"

#include <stdlib.h>

#define MOST 4
enum { OUTPUTS, INPUTS, CONSTANTS, VALUES, STEPS, HEAD };

typedef struct engine {
    const int32_t *plan;
    const int32_t *steps;
    float **values;
} engine;

void acme_close(void **slots) {
    engine *e = (engine *)*slots;
    int32_t i;
    if (e != NULL && e->values != NULL)
        for (i = e->plan[OUTPUTS] + e->plan[INPUTS] + e->plan[CONSTANTS]; i < e->plan[VALUES]; ++i)
            free(e->values[i]);
    if (e != NULL)
        free(e->values);
    free(e);
    *slots = NULL;
}

aot_status acme_open(void **slots, const void *plan, const acme_open_params *p) {
    engine *e = (engine *)calloc(1, sizeof *e);
    const int32_t *head = (const int32_t *)plan, *data;
    int32_t i, constants, own;
    *slots = e;
    if (e == NULL || p->bytes < (int32_t)(HEAD * sizeof *head))
        return AOT_VENDOR;
    e->plan = head;
    e->values = (float **)calloc((size_t)head[VALUES], sizeof *e->values);
    if (e->values == NULL)
        return AOT_VENDOR;
    constants = head[OUTPUTS] + head[INPUTS];
    own = constants + head[CONSTANTS];
    data = head + HEAD + head[VALUES];
    for (i = constants; i < own; data += head[HEAD + i++])
        e->values[i] = (float *)(uintptr_t)data;
    for (; i < head[VALUES]; ++i) {
        e->values[i] = (float *)malloc((size_t)head[HEAD + i] * sizeof **e->values);
        if (e->values[i] == NULL)
            return AOT_VENDOR;
    }
    e->steps = data;
    return AOT_OK;
}

aot_status acme_run(void **slots, void *y0, void *y1, void *y2, void *y3, const void *x0,
                    const void *x1, const void *x2, const void *x3) {
    engine *e = (engine *)*slots;
    void *const y[MOST] = {y0, y1, y2, y3};
    const void *const x[MOST] = {x0, x1, x2, x3};
    const int32_t *step = e->steps;
    int32_t i, k;
    for (i = 0; i < e->plan[OUTPUTS]; ++i)
        e->values[i] = (float *)y[i];
    for (i = 0; i < e->plan[INPUTS]; ++i)
        e->values[e->plan[OUTPUTS] + i] = (float *)(uintptr_t)x[i];
    for (i = 0; i < e->plan[STEPS]; ++i, step += 4) {
        float *to = e->values[step[1]];
        const float *a = e->values[step[2]], *b = e->values[step[3]];
        for (k = 0; k < e->plan[HEAD + step[1]]; ++k)
            to[k] = step[0] == 0 ? a[k] + b[k] : a[k] < 0.0F ? 0.0F : a[k];
    }
    return AOT_OK;
}
