/* SPDX-License-Identifier: MIT-0 */
/* Threads of a run, for bundles compiled with --threads.
 *
 * `aot_parallel_for(pool, count, body, data)` calls body(data, i) once for every i from 0 to
 * count - 1, on any threads, at once or one after the other, and returns when all calls have
 * returned. The bundle has one of POSIX threads, whose threads wait in `pool`. To run on threads of
 * your own define the macro in the file that AOT_CONFIG names, for instance
 *
 *   void my_parallel_for(int count, void (*body)(void *, int32_t), void *data);
 *   #define aot_parallel_for(pool, count, body, data) my_parallel_for(count, body, data)
 *
 * The library then starts no threads and needs no <pthread.h>. */
#ifndef AOT_THREADS_H
#define AOT_THREADS_H

#include <stdint.h>

#include "port.h"

/* Part `index` of a job. */
typedef void aot_part(void *data, int32_t index);

/* How often a thread looks for work, or for the end of others' work, before it sleeps. */
#ifndef AOT_SPINS
#define AOT_SPINS 2000
#endif

/* The instruction by which a waiting thread pauses between two looks at its work. */
#ifndef AOT_PAUSE
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
#define AOT_PAUSE() __builtin_ia32_pause()
#elif defined(__GNUC__) && defined(__aarch64__)
#define AOT_PAUSE() __asm__ volatile("yield")
#else
#define AOT_PAUSE() ((void)0)
#endif
#endif

#endif /* AOT_THREADS_H */
