/* SPDX-License-Identifier: MIT-0 */
/* A plugin of QEMU's user mode that counts the instructions of a program and writes their number
 * into the file of its argument. Declared here is what it uses of version 1 of QEMU's interface,
 * whose header few packages have; benchmarks/instructions.py builds and starts it. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct qemu_plugin_tb; /* a block of instructions without a jump */

extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t,
                                                  void (*)(uint64_t, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *,
                                                     uint64_t);
extern void qemu_plugin_register_atexit_cb(uint64_t, void (*)(uint64_t, void *), void *);

int qemu_plugin_version = 1;

static uint64_t counted;
static char path[4096];

static void translated(uint64_t id, struct qemu_plugin_tb *block) {
    enum { ADD };
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD, &counted, qemu_plugin_tb_n_insns(block));
}

static void ended(uint64_t id, void *unused) {
    FILE *f = fopen(path, "w");
    (void)id;
    (void)unused;
    if (f == NULL)
        return;
    (void)fprintf(f, "%llu\n", (unsigned long long)counted);
    (void)fclose(f);
}

int qemu_plugin_install(uint64_t id, const void *info, int count, char **arguments) {
    (void)info;
    if (count != 1 || strncmp(arguments[0], "to=", 3) != 0 || strlen(arguments[0]) >= sizeof path)
        return 1;
    (void)strcpy(path, arguments[0] + 3);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
