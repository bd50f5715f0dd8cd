/* SPDX-License-Identifier: MIT-0 */
/* What is called of Arm's driver (ethosu_driver.h has it too, and all the rest). */
#ifndef AOT_ETHOS_U_DRIVER_H
#define AOT_ETHOS_U_DRIVER_H

#include <stddef.h>
#include <stdint.h>

struct ethosu_driver;

/* A free NPU, waits for one; NULL: there is none. */
struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *driver);
/* 0 once the commands have run. The memories are those that commands call 0, 1, ... */
int ethosu_invoke_v3(struct ethosu_driver *driver, const void *commands, const int bytes,
                     uint64_t *const memories, const size_t *sizes, const int count, void *user);

#endif /* AOT_ETHOS_U_DRIVER_H */
