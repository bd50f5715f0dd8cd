/* SPDX-License-Identifier: MIT-0 */
/* How a compiled model uses an Ethos-U: one call per region of the graph, by Arm's driver. */
#ifndef AOT_ETHOS_U_H
#define AOT_ETHOS_U_H

#include <stdint.h>

#include "aot/aot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The NPU that the commands are for: product 0 U55, 1 U65, 2 U85; the logarithm of its
 * multiplications per cycle. Sizes in bytes. Of the tensors, inputs first: the memory (1 scratch,
 * 2 fast scratch), the first byte there, the size. */
typedef struct aot_ethos_u_run_params {
    int32_t product;
    int32_t log_macs;
    int32_t commands;
    int32_t weights;
    int32_t scratch;
    int32_t fast;
    int32_t inputs;
    int32_t outputs;
    int32_t region[8];
    int32_t at[8];
    int32_t bytes[8];
} aot_ethos_u_run_params;

/* Copies inputs into the scratch memory, has the driver run the commands, copies outputs out of
 * it. All addresses but those of tensors are multiples of 16; memory of size 0 is NULL, and then
 * the fast scratch is the scratch. AOT_VENDOR if the driver gives no NPU, or reports an error:
 * then no output is written. */
aot_status aot_ethos_u_run(const void *commands, const void *weights, const void *scratch,
                           const void *fast, const void *t0, const void *t1, const void *t2,
                           const void *t3, const void *t4, const void *t5, const void *t6,
                           const void *t7, const aot_ethos_u_run_params *p);

#ifdef __cplusplus
}
#endif

#endif /* AOT_ETHOS_U_H */
