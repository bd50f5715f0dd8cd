/* SPDX-License-Identifier: MIT-0 */
/* Compiler-dependent spellings in one place. Every macro can be replaced: define it before this
 * header is read, or in the file that AOT_CONFIG names (-DAOT_CONFIG='"my_config.h"'). */
#ifndef AOT_PORT_H
#define AOT_PORT_H

/* Compilers that take GNU's attributes of variables and functions; IAR's do not call themselves
 * GNU. */
#if defined(__GNUC__) || defined(__ICCARM__) || defined(__ICCRISCV__)
#define AOT_GNU_ATTRIBUTES 1
#endif

#ifdef AOT_CONFIG
#include AOT_CONFIG
#endif

/* A function that must disappear into its caller. */
#ifndef AOT_INLINE
#if defined(__GNUC__)
#define AOT_INLINE static inline __attribute__((always_inline))
#else
#define AOT_INLINE static inline
#endif
#endif

/* Where the functions of a run are, all that compute and their helpers: a section that start-up
 * code of yours copies to fast memory, `-DAOT_HOT='AOT_SECTION(".itcm")'`. */
#ifndef AOT_HOT
#define AOT_HOT
#endif

/* A function that must stay one: kernels specialised once and called often. It is also what keeps
 * the arena's effective types apart: accesses of two kernels never meet in one function. */
#ifndef AOT_NOINLINE
#ifdef AOT_GNU_ATTRIBUTES
#define AOT_NOINLINE __attribute__((noinline)) AOT_HOT
#elif defined(_MSC_VER)
#define AOT_NOINLINE __declspec(noinline)
#else
#define AOT_NOINLINE AOT_HOT
#endif
#endif

#ifndef AOT_UNUSED
#if defined(__GNUC__)
#define AOT_UNUSED __attribute__((unused))
#else
#define AOT_UNUSED
#endif
#endif

/* The caller must look at the result. */
#ifndef AOT_WARN_UNUSED
#if defined(__GNUC__)
#define AOT_WARN_UNUSED __attribute__((warn_unused_result))
#else
#define AOT_WARN_UNUSED
#endif
#endif

/* A variable aligned to n bytes: `AOT_ALIGNED(64) static char x[64];` */
#ifndef AOT_ALIGNED
#ifdef AOT_GNU_ATTRIBUTES
#define AOT_ALIGNED(n) __attribute__((aligned(n)))
#elif defined(_MSC_VER)
#define AOT_ALIGNED(n) __declspec(align(n))
#elif defined(__TINYC__) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L)
#define AOT_ALIGNED(n) _Alignas(n)
#else
#define AOT_ALIGNED(n)
#endif
#endif

/* A variable in a linker section: `AOT_SECTION(".sram2") static char x[64];` */
#ifndef AOT_SECTION
#ifdef AOT_GNU_ATTRIBUTES
#define AOT_SECTION(name) __attribute__((section(name)))
#else
#define AOT_SECTION(name)
#endif
#endif

/* Placement of the built-in arena: `-DAOT_ARENA_ATTR='AOT_SECTION(".sram2")'`. */
#ifndef AOT_ARENA_ATTR
#define AOT_ARENA_ATTR
#endif

/* Whether NAME_step ends behind the slice that it has just made: a deadline of yours, as in
 * `#define AOT_STEP_DUE() (timer_now() > my_deadline)` in the file that AOT_CONFIG names. */
#ifndef AOT_STEP_DUE
#define AOT_STEP_DUE() 0
#endif

/* Whether NAME_set_weights takes a file that belongs to the model and is whole: a check of its
 * signature of yours, as in `#define AOT_WEIGHTS_TRUSTED(file, bytes) my_signed(file, bytes)` in
 * the file that AOT_CONFIG names. */
#ifndef AOT_WEIGHTS_TRUSTED
#define AOT_WEIGHTS_TRUSTED(file, bytes) 1
#endif

/* Weights that come from slow memory: aot_copy_start begins to copy `bytes` bytes, aot_copy_wait
 * returns when they are there. One copy is under way at a time, each start is followed by its wait,
 * and nobody touches either place in between; a DMA controller of yours works meanwhile, as in
 * `#define aot_copy_start(to, from, bytes) my_dma_start(to, from, bytes)` in the file that
 * AOT_CONFIG names. */
#ifndef aot_copy_start
#define aot_copy_start(to, from, bytes) ((void)memcpy((to), (from), (bytes)))
#define aot_copy_wait() ((void)0)
#endif

/* A data cache beside a device that reads and writes memory past it. A vendor's code calls
 * aot_cache_clean before its device starts, for all that the device reads or writes: the cache
 * writes to memory what it has of these bytes. It calls aot_cache_invalidate when the device is
 * done, for all that may be written: the cache forgets them. Macros of yours in the file that
 * AOT_CONFIG names, as `#define aot_cache_clean(p, bytes) my_clean(p, bytes)`. */
#ifndef aot_cache_clean
#define aot_cache_clean(p, bytes) ((void)(p), (void)(bytes))
#define aot_cache_invalidate(p, bytes) ((void)(p), (void)(bytes))
#endif

/* A symbol other files of the bundle use and nobody else. */
#ifndef AOT_HIDDEN
#if defined(__GNUC__) && defined(__ELF__)
#define AOT_HIDDEN __attribute__((visibility("hidden")))
#else
#define AOT_HIDDEN
#endif
#endif

/* Accesses through a type so marked may alias any object. */
#ifndef AOT_MAY_ALIAS
#if defined(__GNUC__)
#define AOT_MAY_ALIAS __attribute__((may_alias))
#else
#define AOT_MAY_ALIAS
#endif
#endif

#ifndef AOT_RESTRICT
#if defined(__GNUC__) || defined(_MSC_VER)
#define AOT_RESTRICT __restrict
#elif defined(__cplusplus)
#define AOT_RESTRICT
#else
#define AOT_RESTRICT restrict
#endif
#endif

#ifndef AOT_LIKELY
#if defined(__GNUC__)
#define AOT_LIKELY(x) __builtin_expect(!!(x), 1)
#define AOT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#else
#define AOT_LIKELY(x) (!!(x))
#define AOT_UNLIKELY(x) (!!(x))
#endif
#endif

#ifndef AOT_PREFETCH
#if defined(__GNUC__)
#define AOT_PREFETCH(p) __builtin_prefetch((p), 0, 2)
#else
#define AOT_PREFETCH(p) ((void)(p))
#endif
#endif
/* The byte that many `bytes` behind p, which may lie beyond the array that p points into: C has no
 * pointer there, so the address is a number. */
#define AOT_PREFETCH_AHEAD(p, bytes)                                                               \
    AOT_PREFETCH((const void *)((uintptr_t)(p) + (uintptr_t)(bytes)))

/* Unroll the loop that follows whole: `AOT_UNROLL(4) for (...)`. It takes at most n rounds, and the
 * compiler knows how many; given a larger n, clang would keep arrays of registers in memory. */
#ifndef AOT_UNROLL
#define AOT_PRAGMA_(x) _Pragma(#x)
#if defined(__clang__)
#define AOT_UNROLL(n) AOT_PRAGMA_(clang loop unroll(full))
#elif defined(__GNUC__) && __GNUC__ >= 8
#define AOT_UNROLL(n) AOT_PRAGMA_(GCC unroll n)
#else
#define AOT_UNROLL(n)
#endif
#endif

/* A condition checked by the compiler; `text` is an identifier that says what went wrong. */
#ifndef AOT_STATIC_ASSERT
#if defined(__cplusplus)
#define AOT_STATIC_ASSERT(cond, text) static_assert(cond, #text)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define AOT_STATIC_ASSERT(cond, text) _Static_assert(cond, #text)
#else
#define AOT_STATIC_ASSERT(cond, text) extern int aot_assert_##text[(cond) ? 1 : -1]
#endif
#endif

/* The one-byte lock of a context: AOT_TRY_LOCK gives non-zero when it was free and is now ours.
 * Without atomics it guards against re-entry only, and callers must not share a context. */
#ifndef AOT_TRY_LOCK
#if defined(__GCC_ATOMIC_CHAR_LOCK_FREE) && __GCC_ATOMIC_CHAR_LOCK_FREE > 1
#define AOT_TRY_LOCK(p) (__atomic_exchange_n((p), (unsigned char)1, __ATOMIC_ACQUIRE) == 0)
#define AOT_UNLOCK(p) __atomic_store_n((p), (unsigned char)0, __ATOMIC_RELEASE)
#else
#define AOT_TRY_LOCK(p) (*(p) == 0 ? (*(p) = 1, 1) : 0)
#define AOT_UNLOCK(p) ((void)(*(p) = 0))
#endif
#endif

#endif /* AOT_PORT_H */
