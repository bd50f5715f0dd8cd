/* SPDX-License-Identifier: MIT-0 */
/* Calls of the library in the words of the compiler. */
#include "acme.h"

#include "acme_library.h"

aot_status acme_create(void **slots, const acme_create_params *p) {
    *slots = acme_new_sum((size_t)p->n, (int)p->relu);
    return *slots == NULL ? AOT_VENDOR : AOT_OK;
}

void acme_destroy(void **slots) {
    acme_delete_sum((acme_sum *)*slots);
    *slots = NULL;
}

aot_status acme_run(void **slots, float *y, const float *a, const float *b) {
    return acme_compute_sum((const acme_sum *)*slots, a, b, y) ? AOT_OK : AOT_VENDOR;
}
