/* SPDX-License-Identifier: MIT-0 */
/* Compiler-dependent spellings in one place. Every macro can be replaced: define it before this
 * header is read, or in the file that AOT_CONFIG names. */
#ifndef AOT_PORT_H
#define AOT_PORT_H

#ifdef AOT_CONFIG
#include AOT_CONFIG
#endif

#ifndef AOT_INLINE
#if defined(__GNUC__)
#define AOT_INLINE static inline __attribute__((always_inline))
#else
#define AOT_INLINE static inline
#endif
#endif

#ifndef AOT_NOINLINE
#if defined(__GNUC__)
#define AOT_NOINLINE __attribute__((noinline))
#else
#define AOT_NOINLINE
#endif
#endif

#ifndef AOT_UNUSED
#if defined(__GNUC__)
#define AOT_UNUSED __attribute__((unused))
#else
#define AOT_UNUSED
#endif
#endif

#ifndef AOT_PREFETCH
#if defined(__GNUC__)
#define AOT_PREFETCH(p) __builtin_prefetch((p), 0, 2)
#else
#define AOT_PREFETCH(p) ((void)(p))
#endif
#endif

#endif /* AOT_PORT_H */
