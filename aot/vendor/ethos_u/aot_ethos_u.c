/* SPDX-License-Identifier: MIT-0 */
/* Runs a region on the NPU; see aot_ethos_u.h. */
#include "aot_ethos_u.h"

#include <string.h>

#include "aot/port.h"
#include "aot_ethos_u_driver.h"

aot_status aot_ethos_u_run(const void *commands, const void *weights, const void *scratch,
                           const void *fast, const void *t0, const void *t1, const void *t2,
                           const void *t3, const void *t4, const void *t5, const void *t6,
                           const void *t7, const aot_ethos_u_run_params *p) {
    const void *const tensors[8] = {t0, t1, t2, t3, t4, t5, t6, t7};
    const void *const spare = fast == NULL ? scratch : fast;
    const void *const memories[3] = {weights, scratch, spare};
    const size_t sizes[3] = {(size_t)p->weights, (size_t)p->scratch,
                             (size_t)(fast == NULL ? p->scratch : p->fast)};
    uint64_t addresses[3];
    for (int i = 0; i < 3; ++i)
        addresses[i] = (uint64_t)(uintptr_t)memories[i];
    for (int i = 0; i < p->inputs; ++i) {
        unsigned char *const memory = (unsigned char *)(uintptr_t)memories[p->region[i]];
        (void)memcpy(memory + p->at[i], tensors[i], (size_t)p->bytes[i]);
    }
    struct ethosu_driver *const driver = ethosu_reserve_driver();
    if (driver == NULL)
        return AOT_VENDOR;
    aot_cache_clean(commands, (size_t)p->commands);
    for (int i = 0; i < (fast == NULL ? 2 : 3); ++i)
        aot_cache_clean(memories[i], sizes[i]);
    const int failed = ethosu_invoke_v3(driver, commands, p->commands, addresses, sizes, 3, NULL);
    ethosu_release_driver(driver);
    for (int i = 1; i < (fast == NULL ? 2 : 3); ++i)
        aot_cache_invalidate(memories[i], sizes[i]);
    if (failed != 0)
        return AOT_VENDOR;
    for (int i = p->inputs; i < p->inputs + p->outputs; ++i) {
        const unsigned char *const memory = memories[p->region[i]];
        (void)memcpy((void *)(uintptr_t)tensors[i], memory + p->at[i], (size_t)p->bytes[i]);
    }
    return AOT_OK;
}
