/* SPDX-License-Identifier: MIT-0 */
/* A pool of POSIX threads, all of it in memory that the caller gives; only starting it allocates,
 * and nothing but the system does.
 *
 * The thread that runs a job makes part 0, thread i of the pool part i. Every thread counts jobs:
 * a job begins when the number of jobs rises, and is over when `left` is 0. Threads look for that
 * AOT_SPINS times, then sleep. */
#ifndef AOT_THREAD_POOL_H
#define AOT_THREAD_POOL_H

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "aot/threads.h"

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t begun, over;
    aot_part *body; /* NULL: the threads end */
    void *data;
    pid_t process; /* a forked process has none of the threads */
    uint32_t jobs;
    int32_t count, left, started;
} aot_pool;

/* The work of a thread of the pool; these records lie behind the pool. */
typedef struct {
    aot_pool *pool;
    pthread_t thread;
    int32_t part;
} aot_pool_thread;

AOT_INLINE aot_pool_thread *aot_pool_threads(aot_pool *pool) {
    return (aot_pool_thread *)(void *)(pool + 1);
}

/* Waits until job `seen` + 1 begins. */
AOT_INLINE void aot_pool_await_job(aot_pool *pool, uint32_t seen) {
    int i;
    for (i = 0; i < AOT_SPINS; ++i) {
        if (__atomic_load_n(&pool->jobs, __ATOMIC_ACQUIRE) != seen) {
            return;
        }
        AOT_PAUSE();
    }
    (void)pthread_mutex_lock(&pool->lock);
    while (__atomic_load_n(&pool->jobs, __ATOMIC_ACQUIRE) == seen) {
        (void)pthread_cond_wait(&pool->begun, &pool->lock);
    }
    (void)pthread_mutex_unlock(&pool->lock);
}

/* A thread of the pool. */
static void *aot_pool_work(void *argument) {
    const aot_pool_thread *const own = (const aot_pool_thread *)argument;
    aot_pool *const pool = own->pool;
    uint32_t seen = 0;
    for (;;) {
        aot_pool_await_job(pool, seen++);
        if (pool->body == NULL) {
            return NULL;
        }
        if (own->part < pool->count) {
            pool->body(pool->data, own->part);
        }
        if (__atomic_sub_fetch(&pool->left, 1, __ATOMIC_ACQ_REL) == 0) {
            (void)pthread_mutex_lock(&pool->lock);
            (void)pthread_cond_signal(&pool->over);
            (void)pthread_mutex_unlock(&pool->lock);
        }
    }
}

/* Tells all threads of a job. */
AOT_INLINE void aot_pool_begin(aot_pool *pool, int32_t count, aot_part *body, void *data) {
    (void)pthread_mutex_lock(&pool->lock);
    pool->body = body;
    pool->data = data;
    pool->count = count;
    __atomic_store_n(&pool->left, pool->started, __ATOMIC_RELEASE);
    __atomic_store_n(&pool->jobs, pool->jobs + 1, __ATOMIC_RELEASE);
    (void)pthread_cond_broadcast(&pool->begun);
    (void)pthread_mutex_unlock(&pool->lock);
}

/* Waits until every thread has made its part. */
AOT_INLINE void aot_pool_await_end(aot_pool *pool) {
    int i;
    for (i = 0; i < AOT_SPINS; ++i) {
        if (__atomic_load_n(&pool->left, __ATOMIC_ACQUIRE) == 0) {
            return;
        }
        AOT_PAUSE();
    }
    (void)pthread_mutex_lock(&pool->lock);
    while (__atomic_load_n(&pool->left, __ATOMIC_ACQUIRE) != 0) {
        (void)pthread_cond_wait(&pool->over, &pool->lock);
    }
    (void)pthread_mutex_unlock(&pool->lock);
}

/* Ends all threads. */
AOT_INLINE void aot_pool_stop(aot_pool *pool) {
    int32_t i;
    if (pool->process != getpid()) {
        return;
    }
    if (pool->started > 0) {
        aot_pool_begin(pool, 0, NULL, NULL);
    }
    for (i = 0; i < pool->started; ++i) {
        (void)pthread_join(aot_pool_threads(pool)[i].thread, NULL);
    }
    (void)pthread_cond_destroy(&pool->over);
    (void)pthread_cond_destroy(&pool->begun);
    (void)pthread_mutex_destroy(&pool->lock);
    pool->process = 0;
}

/* Starts threads for jobs of `count` parts, in memory for the pool and count - 1 aot_pool_thread;
 * 0 if it cannot, and then no thread is left. They take no signals. */
AOT_INLINE int aot_pool_start(aot_pool *pool, int32_t count) {
    aot_pool_thread *const threads = aot_pool_threads(pool);
    sigset_t all, before;
    int32_t i;
    (void)memset(pool, 0, sizeof *pool);
    if (pthread_mutex_init(&pool->lock, NULL) != 0) {
        return 0;
    }
    if (pthread_cond_init(&pool->begun, NULL) != 0) {
        (void)pthread_mutex_destroy(&pool->lock);
        return 0;
    }
    if (pthread_cond_init(&pool->over, NULL) != 0) {
        (void)pthread_cond_destroy(&pool->begun);
        (void)pthread_mutex_destroy(&pool->lock);
        return 0;
    }
    pool->process = getpid();
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    for (i = 0; i < count - 1; ++i) {
        threads[i].pool = pool;
        threads[i].part = i + 1;
        if (pthread_create(&threads[i].thread, NULL, aot_pool_work, &threads[i]) != 0) {
            break;
        }
        ++pool->started;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (i == count - 1) {
        return 1;
    }
    aot_pool_stop(pool);
    return 0;
}

/* aot_parallel_for of aot/threads.h; a pool that has not started makes all parts itself. */
AOT_INLINE void aot_pool_run(aot_pool *pool, int32_t count, aot_part *body, void *data) {
    const int alone = count < 2 || pool->process != getpid();
    int32_t i;
    if (!alone) {
        aot_pool_begin(pool, count, body, data);
    }
    body(data, 0);
    for (i = alone ? 1 : pool->started + 1; i < count; ++i) {
        body(data, i);
    }
    if (!alone) {
        aot_pool_await_end(pool);
    }
}

#endif /* AOT_THREAD_POOL_H */
