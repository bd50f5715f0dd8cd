/* SPDX-License-Identifier: MIT-0 */
/* A stand-in for the core's driver and for the core. */
#include "acme.h"

#define ACME_MAGIC 0x41434D31

aot_status acme_submit(const void *stream, const void *weights, void *scratch, void *y0, void *y1,
                       void *y2, void *y3, const void *x0, const void *x1, const void *x2,
                       const void *x3) {
    const int32_t *word = (const int32_t *)stream;
    const void *read[10];
    void *written[10] = {0};
    int32_t left, i;
    if (word[0] != ACME_MAGIC)
        return AOT_VENDOR;
    written[1] = scratch;
    written[2] = y0;
    written[3] = y1;
    written[4] = y2;
    written[5] = y3;
    for (i = 0; i < 6; ++i)
        read[i] = written[i];
    read[0] = weights;
    read[6] = x0;
    read[7] = x1;
    read[8] = x2;
    read[9] = x3;
    left = word[1];
    for (word += 2; left > 0; --left, word += 8) {
        float *y = (float *)written[word[2]] + word[3];
        const float *a = (const float *)read[word[4]] + word[5];
        const float *b = (const float *)read[word[6]] + word[7];
        for (i = 0; i < word[1]; ++i) {
            const float sum = a[i] + b[i];
            y[i] = word[0] && sum < 0.0F ? 0.0F : sum;
        }
    }
    return AOT_OK;
}
