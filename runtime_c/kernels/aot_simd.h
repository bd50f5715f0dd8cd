/* SPDX-License-Identifier: MIT-0 */
/* One vector of float32 (aot_vf) and of int32 (aot_vi) with AOT_VLEN lanes.
 *
 * AOT_VLEN: 16 (AVX-512), 8 (AVX), 4 (SSE2, NEON, any) or 1 (plain scalar C); fixed when the bundle
 * is generated because layouts and packed weights depend on it. The vectors are GNU vector
 * extensions, so  + - * /  work between vectors and between a vector and a scalar at every width.
 * Comparisons go through aot_vlt & co (a lane of the mask is all ones or zero).
 */
#ifndef AOT_SIMD_H
#define AOT_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "aot/port.h"

#ifndef AOT_VLEN
#error "define AOT_VLEN before this header: the width the bundle was generated for"
#endif

#if AOT_VLEN != 1 && AOT_VLEN != 4 && AOT_VLEN != 8 && AOT_VLEN != 16
#error "AOT_VLEN must be 1, 4, 8 or 16"
#endif
#if AOT_VLEN > 1 && !defined(__GNUC__)
#error "AOT_VLEN > 1 needs GNU vector extensions (gcc or clang)"
#endif
#if defined(__x86_64__) && !defined(AOT_ALLOW_NARROW)
#if (AOT_VLEN == 16 && !defined(__AVX512F__)) || (AOT_VLEN == 8 && !defined(__AVX__))
#error "AOT_VLEN is wider than the vectors of this target (it would be tens of times slower)"
#endif
#endif

/* How many bytes ahead a loop prefetches that reads memory once: what DRAM delivers while it takes
 * to answer. */
#define AOT_STREAM_AHEAD 2048

/* Ask for the bytes from p on that such a loop does not prefetch itself. */
AOT_INLINE void aot_stream_begin(const void *p) {
    int32_t line;
    for (line = 0; line < AOT_STREAM_AHEAD; line += 64) {
        AOT_PREFETCH_AHEAD(p, line);
    }
}

#if AOT_VLEN > 1

typedef float aot_vf __attribute__((vector_size(4 * AOT_VLEN)));
typedef int32_t aot_vi __attribute__((vector_size(4 * AOT_VLEN)));
/* The same, at any float-aligned address. */
typedef float aot_vfu __attribute__((vector_size(4 * AOT_VLEN), aligned(4), may_alias));
typedef int32_t aot_viu __attribute__((vector_size(4 * AOT_VLEN), aligned(4), may_alias));

AOT_INLINE aot_vf aot_vload(const float *p) {
    return *(const aot_vfu *)p;
}
AOT_INLINE void aot_vstore(float *p, aot_vf v) {
    *(aot_vfu *)p = v;
}
AOT_INLINE aot_vi aot_viload(const int32_t *p) {
    return *(const aot_viu *)p;
}
AOT_INLINE void aot_vistore(int32_t *p, aot_vi v) {
    *(aot_viu *)p = v;
}
AOT_INLINE aot_vf aot_vset1(float s) {
    return s - (aot_vf){0.0F};
}
AOT_INLINE aot_vi aot_viset1(int32_t s) {
    return s - (aot_vi){0};
}

/* Lane masks. Unordered compares are false. */
AOT_INLINE aot_vi aot_vlt(aot_vf a, aot_vf b) {
    return (aot_vi)(a < b);
}
AOT_INLINE aot_vi aot_vle(aot_vf a, aot_vf b) {
    return (aot_vi)(a <= b);
}
AOT_INLINE aot_vi aot_veq(aot_vf a, aot_vf b) {
    return (aot_vi)(a == b);
}
AOT_INLINE aot_vi aot_visgt(aot_vi a, aot_vi b) {
    return (aot_vi)(a > b);
}

/* The same bits as the other type. */
AOT_INLINE aot_vi aot_vbits(aot_vf v) {
    return (aot_vi)v;
}
AOT_INLINE aot_vf aot_vfrombits(aot_vi v) {
    return (aot_vf)v;
}

/* Values converted: int32 to nearest float; float to int32 towards zero (must be in range). */
AOT_INLINE aot_vf aot_vi2f(aot_vi v) {
    return __builtin_convertvector(v, aot_vf);
}
AOT_INLINE aot_vi aot_vf2i(aot_vf v) {
    return __builtin_convertvector(v, aot_vi);
}

/* mask ? a : b */
AOT_INLINE aot_vf aot_vselect(aot_vi mask, aot_vf a, aot_vf b) {
    return (aot_vf)((mask & (aot_vi)a) | (~mask & (aot_vi)b));
}

/* a > b ? a : b, so b when either is NaN: write aot_vmax(bound, x) to let NaN through. */
AOT_INLINE aot_vf aot_vmax(aot_vf a, aot_vf b) {
#if AOT_VLEN == 16 && defined(__AVX512F__) && !defined(__clang__)
    return __builtin_ia32_maxps512_mask(a, b, a, (short)-1, 4);
#elif AOT_VLEN == 8 && defined(__AVX__) && !defined(__clang__)
    return __builtin_ia32_maxps256(a, b);
#elif AOT_VLEN == 4 && defined(__SSE2__) && !defined(__clang__)
    return __builtin_ia32_maxps(a, b);
#else
    return aot_vselect(aot_vlt(b, a), a, b);
#endif
}

/* a < b ? a : b, so b when either is NaN. */
AOT_INLINE aot_vf aot_vmin(aot_vf a, aot_vf b) {
#if AOT_VLEN == 16 && defined(__AVX512F__) && !defined(__clang__)
    return __builtin_ia32_minps512_mask(a, b, a, (short)-1, 4);
#elif AOT_VLEN == 8 && defined(__AVX__) && !defined(__clang__)
    return __builtin_ia32_minps256(a, b);
#elif AOT_VLEN == 4 && defined(__SSE2__) && !defined(__clang__)
    return __builtin_ia32_minps(a, b);
#else
    return aot_vselect(aot_vlt(a, b), a, b);
#endif
}

AOT_INLINE float aot_vlane(aot_vf v, int i) {
    return v[i];
}

#else /* AOT_VLEN == 1: the same words on scalars */

typedef float aot_vf;
typedef int32_t aot_vi;

AOT_INLINE aot_vf aot_vload(const float *p) {
    return *p;
}
AOT_INLINE void aot_vstore(float *p, aot_vf v) {
    *p = v;
}
AOT_INLINE aot_vi aot_viload(const int32_t *p) {
    return *p;
}
AOT_INLINE void aot_vistore(int32_t *p, aot_vi v) {
    *p = v;
}
AOT_INLINE aot_vf aot_vset1(float s) {
    return s;
}
AOT_INLINE aot_vi aot_viset1(int32_t s) {
    return s;
}
AOT_INLINE aot_vi aot_vlt(aot_vf a, aot_vf b) {
    return a < b ? -1 : 0;
}
AOT_INLINE aot_vi aot_vle(aot_vf a, aot_vf b) {
    return a <= b ? -1 : 0;
}
AOT_INLINE aot_vi aot_veq(aot_vf a, aot_vf b) {
    return a >= b && a <= b ? -1 : 0;
}
AOT_INLINE aot_vi aot_visgt(aot_vi a, aot_vi b) {
    return a > b ? -1 : 0;
}
AOT_INLINE aot_vi aot_vbits(aot_vf v) {
    aot_vi r;
    (void)memcpy(&r, &v, sizeof r);
    return r;
}
AOT_INLINE aot_vf aot_vfrombits(aot_vi v) {
    aot_vf r;
    (void)memcpy(&r, &v, sizeof r);
    return r;
}
AOT_INLINE aot_vf aot_vi2f(aot_vi v) {
    return (float)v;
}
AOT_INLINE aot_vi aot_vf2i(aot_vf v) {
    return (int32_t)v;
}
AOT_INLINE aot_vf aot_vselect(aot_vi mask, aot_vf a, aot_vf b) {
    return mask != 0 ? a : b;
}
AOT_INLINE aot_vf aot_vmax(aot_vf a, aot_vf b) {
    return a > b ? a : b;
}
AOT_INLINE aot_vf aot_vmin(aot_vf a, aot_vf b) {
    return a < b ? a : b;
}
AOT_INLINE float aot_vlane(aot_vf v, int i) {
    (void)i;
    return v;
}

#endif

/* For gcc's register allocator: AOT_VPIN(v) keeps v in a register instead of reading memory again
 * at each use; AOT_VKEEP(v) keeps it alive, so that an FMA does not overwrite it and then copy its
 * accumulator around (+15 % on the register tiles); AOT_VAGAIN reads again what was read before it,
 * which the tile would else have no register for. No code, no effect on values. */
#if AOT_VLEN > 1 && !defined(__clang__) && defined(__AVX512F__)
#define AOT_VPIN(v) __asm__("" : "+v"(v))
#define AOT_VKEEP(v) __asm__("" : : "v"(v))
#define AOT_VAGAIN __asm__ volatile("" : : : "memory")
#else
#define AOT_VPIN(v) ((void)(v))
#define AOT_VKEEP(v) ((void)(v))
#define AOT_VAGAIN ((void)0)
#endif
/* For clang's scheduler on x86: loads below AOT_VORDER stay below it. Brought forward they take
 * registers of the accumulators, which then go through memory in every step (half the speed). */
#if AOT_VLEN >= 8 && defined(__clang__)
#define AOT_VORDER __asm__ volatile("" : : : "memory")
#else
#define AOT_VORDER ((void)0)
#endif

AOT_INLINE aot_vf aot_vzero(void) {
    return aot_vset1(0.0F);
}

/* a * b + c; one rounding where the build allows contraction. */
AOT_INLINE aot_vf aot_vfma(aot_vf a, aot_vf b, aot_vf c) {
    return a * b + c;
}

/* The larger and the smaller of two; a NaN in either stays. 32-bit Arm's vectors flush subnormal
 * numbers, so compilers take them apart: lane by lane is shorter there than masks. */
AOT_INLINE aot_vf aot_vmaximum(aot_vf a, aot_vf b) {
#if AOT_VLEN == 16 && defined(__AVX512F__) && !defined(__clang__)
    const unsigned short numbers = __builtin_ia32_cmpps512_mask(a, a, 7, 0xFFFFU, 4);
    return __builtin_ia32_maxps512_mask(a, b, a, (short)numbers, 4);
#elif AOT_VLEN > 1 && defined(__arm__)
    aot_vf r = a;
    int i;
    for (i = 0; i < AOT_VLEN; ++i) {
        r[i] = a[i] <= b[i] || isnan(b[i]) ? b[i] : a[i];
    }
    return r;
#else
    return aot_vselect(aot_veq(a, a), aot_vmax(a, b), a);
#endif
}
AOT_INLINE aot_vf aot_vminimum(aot_vf a, aot_vf b) {
#if AOT_VLEN == 16 && defined(__AVX512F__) && !defined(__clang__)
    const unsigned short numbers = __builtin_ia32_cmpps512_mask(a, a, 7, 0xFFFFU, 4);
    return __builtin_ia32_minps512_mask(a, b, a, (short)numbers, 4);
#elif AOT_VLEN > 1 && defined(__arm__)
    aot_vf r = a;
    int i;
    for (i = 0; i < AOT_VLEN; ++i) {
        r[i] = a[i] >= b[i] || isnan(b[i]) ? b[i] : a[i];
    }
    return r;
#else
    return aot_vselect(aot_veq(a, a), aot_vmin(a, b), a);
#endif
}

/* x limited to lo..hi; NaN stays NaN. */
AOT_INLINE aot_vf aot_vclamp(aot_vf x, aot_vf lo, aot_vf hi) {
    return aot_vmin(hi, aot_vmax(lo, x));
}

AOT_INLINE aot_vf aot_vabs(aot_vf v) {
    return aot_vfrombits(aot_vbits(v) & aot_viset1(INT32_C(0x7FFFFFFF)));
}

/* |mag| with the sign of sgn. */
AOT_INLINE aot_vf aot_vcopysign(aot_vf mag, aot_vf sgn) {
    const aot_vi low = aot_viset1(INT32_C(0x7FFFFFFF));
    return aot_vfrombits((aot_vbits(mag) & low) | (aot_vbits(sgn) & ~low));
}

/* Lanes 0..n-1 from memory, the others `fill`; touches n floats. */
AOT_INLINE aot_vf aot_vload_n(const float *p, int n, float fill) {
    float lane[AOT_VLEN];
    int i;
    for (i = 0; i < AOT_VLEN; ++i) {
        lane[i] = i < n ? p[i] : fill;
    }
    return aot_vload(lane);
}

/* Lanes 0..n-1 to memory; touches n floats. */
AOT_INLINE void aot_vstore_n(float *p, aot_vf v, int n) {
    float lane[AOT_VLEN];
    aot_vstore(lane, v);
    (void)memcpy(p, lane, (size_t)n * sizeof(float));
}

/* Sum and maximum of all lanes, in halves (the same order at every optimisation level). */
AOT_INLINE float aot_vsum(aot_vf v) {
    float lane[AOT_VLEN];
    int half, i;
    aot_vstore(lane, v);
    for (half = AOT_VLEN / 2; half > 0; half /= 2) {
        for (i = 0; i < half; ++i) {
            lane[i] += lane[i + half];
        }
    }
    return lane[0];
}
AOT_INLINE float aot_vhmax(aot_vf v) {
    float lane[AOT_VLEN];
    int half, i;
    aot_vstore(lane, v);
    for (half = AOT_VLEN / 2; half > 0; half /= 2) {
        for (i = 0; i < half; ++i) {
            lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
        }
    }
    return lane[0];
}

#endif /* AOT_SIMD_H */
