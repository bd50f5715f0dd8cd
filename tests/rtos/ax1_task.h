/* SPDX-License-Identifier: MIT-0 */
/* AX1_BOARD for a kernel: a task waits for a notification where a program without a kernel lets the
 * core sleep. A notification that comes before the wait ends it, so none is lost between the
 * driver's look at the status and the wait. */
#ifndef AX1_TASK_H
#define AX1_TASK_H

void machine_prepare(void);
void machine_started(void);
void machine_wait(void);

#define AX1_PREPARE() machine_prepare()
#define AX1_STARTED() machine_started()
#define AX1_WFI() machine_wait()

#endif
