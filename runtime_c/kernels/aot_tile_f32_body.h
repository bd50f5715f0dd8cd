/* SPDX-License-Identifier: MIT-0 */
/* Template of a register tile: see aot_tile_f32.h, which includes it once per AOT_TILE_P by
 * AOT_TILE_O instance. Not a header to include elsewhere. */

#define AOT_T_EACH_P AOT_T_CAT(AOT_T_P, AOT_TILE_P)
#define AOT_T_EACH_O AOT_T_CAT(AOT_T_O, AOT_TILE_O)
#define AOT_T_EACH_Q AOT_T_CAT(AOT_T_Q, AOT_TILE_O)
#define AOT_T_W (AOT_TILE_O * AOT_VLEN)

#define AOT_T_BIAS(o) const aot_vf b##o = aot_vload(j->bias + (o)*AOT_VLEN);
#define AOT_T_ACC(p, o) aot_vf a##p##_##o = b##o;
#define AOT_T_ACCS(p) AOT_T_EACH_Q(AOT_T_ACC, p)

#if AOT_VLEN == 1
#define AOT_T_AT(p)                                                                                \
    const float *x##p = j->x + (j->off[p] + tap);                                                  \
    const ptrdiff_t s##p = j->xstep;
#define AOT_T_PTR(p)                                                                               \
    const float *x##p = xs[p];                                                                     \
    const ptrdiff_t s##p = st[p];
#define AOT_T_X(p) x##p[k * s##p]
#else
#define AOT_T_AT(p) const float *x##p = j->x + (j->off[p] + tap);
#define AOT_T_PTR(p) const float *x##p = xs[p];
#define AOT_T_X(p) x##p[k]
#endif

/* One k: load the weights, multiply every pixel. */
#define AOT_T_LOAD(o)                                                                              \
    aot_vf w##o = aot_vload(w + (o)*AOT_VLEN);                                                     \
    AOT_VPIN(w##o);
#if AOT_TILE_RUNS == 2
#define AOT_T_APART (AOT_VLEN / 2) /* words of a block of channels */
#define AOT_T_SET(x) aot_bf16_word(&(x))
#define AOT_T_FMA(p, o) a##p##_##o = AOT_BF16_MADD(a##p##_##o, w##o, s);
#else
#define AOT_T_APART AOT_VLEN
#define AOT_T_SET(x) aot_vset1(x)
#define AOT_T_FMA(p, o) a##p##_##o += w##o * s;
#endif
#define AOT_T_PIXEL(p)                                                                             \
    {                                                                                              \
        const aot_vf s = AOT_T_SET(AOT_T_X(p));                                                    \
        AOT_T_EACH_Q(AOT_T_FMA, p)                                                                 \
        AOT_VKEEP(s);                                                                              \
    }
/* The same where pixels follow each other: one address for all, as there are few registers. */
#define AOT_T_NEXT_PIXEL(p)                                                                        \
    {                                                                                              \
        const aot_vf s = AOT_T_SET(x[(p)*AOT_T_APART]);                                            \
        AOT_T_EACH_Q(AOT_T_FMA, p)                                                                 \
        AOT_VKEEP(s);                                                                              \
    }
#define AOT_T_STEP_CLOSE                                                                           \
    {                                                                                              \
        AOT_T_EACH_O(AOT_T_LOAD)                                                                   \
        AOT_T_EACH_P(AOT_T_NEXT_PIXEL)                                                             \
        w += AOT_T_W;                                                                              \
        ++x;                                                                                       \
    }
/* The same where each is `apart` floats from the one before it, in two rows of addresses. */
#define AOT_T_EVEN_PIXEL(p)                                                                        \
    {                                                                                              \
        const aot_vf s = AOT_T_SET(((p) < 7 ? x : half)[(p) % 7 * apart]);                         \
        AOT_T_EACH_Q(AOT_T_FMA, p)                                                                 \
        AOT_VKEEP(s);                                                                              \
    }
#define AOT_T_STEP_EVEN                                                                            \
    {                                                                                              \
        AOT_T_EACH_O(AOT_T_LOAD)                                                                   \
        AOT_T_EACH_P(AOT_T_EVEN_PIXEL)                                                             \
        w += AOT_T_W;                                                                              \
        ++x;                                                                                       \
        ++half;                                                                                    \
    }
#define AOT_T_STEP                                                                                 \
    {                                                                                              \
        AOT_T_EACH_O(AOT_T_LOAD)                                                                   \
        AOT_T_EACH_P(AOT_T_PIXEL)                                                                  \
        w += AOT_T_W;                                                                              \
        ++k;                                                                                       \
    }

/* A run of k is over: its sums join `sum`, what that rounds away joins `lost`. */
#define AOT_T_LANE(p, o) (((p)*AOT_TILE_O + (o)) * AOT_VLEN)
#define AOT_T_FLUSH(p, o)                                                                          \
    {                                                                                              \
        const aot_vf old = aot_vload(sum + AOT_T_LANE(p, o));                                      \
        const aot_vf all = old + a##p##_##o;                                                       \
        const aot_vf part = all - old;                                                             \
        const aot_vf off = (old - (all - part)) + (a##p##_##o - part);                             \
        aot_vstore(sum + AOT_T_LANE(p, o), all);                                                   \
        aot_vstore(lost + AOT_T_LANE(p, o), aot_vload(lost + AOT_T_LANE(p, o)) + off);             \
        a##p##_##o = aot_vzero();                                                                  \
    }
#define AOT_T_FLUSHES(p) AOT_T_EACH_Q(AOT_T_FLUSH, p)
#define AOT_T_TOTAL(p, o)                                                                          \
    a##p##_##o += aot_vload(lost + AOT_T_LANE(p, o));                                              \
    a##p##_##o += aot_vload(sum + AOT_T_LANE(p, o));
#define AOT_T_TOTALS(p) AOT_T_EACH_Q(AOT_T_TOTAL, p)

#if AOT_TILE_RUNS == 1
#define AOT_T_RUN_OVER                                                                             \
    if (since + n > j->run && since > 0) {                                                         \
        if (!flushed) {                                                                            \
            (void)memset(sum, 0, sizeof sum);                                                      \
            (void)memset(lost, 0, sizeof lost);                                                    \
            flushed = 1;                                                                           \
        }                                                                                          \
        AOT_T_EACH_P(AOT_T_FLUSHES)                                                                \
        since = 0;                                                                                 \
    }                                                                                              \
    since += n;
#elif AOT_TILE_CUTS
#define AOT_T_KEEP(p, o)                                                                           \
    if ((p) < j->n) {                                                                              \
        const ptrdiff_t at = (p)*j->y_pixel + (o)*j->y_block;                                      \
        if (r != NULL) {                                                                           \
            a##p##_##o += aot_vload(r + at);                                                       \
        }                                                                                          \
        aot_vstore(j->y + at, a##p##_##o);                                                         \
    }                                                                                              \
    a##p##_##o = aot_vzero();
#define AOT_T_KEEPS(p) AOT_T_EACH_Q(AOT_T_KEEP, p)
#define AOT_T_RUN_OVER                                                                             \
    if (since + n > run && since > 0) {                                                            \
        AOT_T_EACH_P(AOT_T_KEEPS)                                                                  \
        r = j->y;                                                                                  \
        since = 0;                                                                                 \
    }                                                                                              \
    since += n;
#else
#define AOT_T_RUN_OVER
#endif

#define AOT_T_ADD(p, o) a##p##_##o += aot_vload(r + (p)*j->y_pixel + (o)*j->y_block);
#define AOT_T_ADDS(p)                                                                              \
    if ((p) < j->n) {                                                                              \
        AOT_T_EACH_Q(AOT_T_ADD, p)                                                                 \
    }
#define AOT_T_CLAMP(p, o) a##p##_##o = aot_vclamp(a##p##_##o, lo, hi);
#define AOT_T_LOW(p, o) a##p##_##o = aot_vmax(lo, a##p##_##o);
#define AOT_T_LOWS(p) AOT_T_EACH_Q(AOT_T_LOW, p)
#define AOT_T_CLAMPS(p) AOT_T_EACH_Q(AOT_T_CLAMP, p)
#define AOT_T_STORE(p, o) aot_vstore(j->y + (p)*j->y_pixel + (o)*j->y_block, a##p##_##o);
#define AOT_T_STORES(p)                                                                            \
    if ((p) < j->n) {                                                                              \
        AOT_T_EACH_Q(AOT_T_STORE, p)                                                               \
    }

AOT_UNUSED AOT_NOINLINE static void AOT_T_NAME(AOT_TILE_P, AOT_TILE_O,
                                               AOT_TILE_RUNS)(const aot_tile_f32_job *j) {
    const float *w = j->w;
    /* A number: it runs on beyond the array that it begins in. */
    uintptr_t pf = j->next != 0 ? j->next : (uintptr_t)w;
    const uintptr_t pf_step = j->next != 0 ? 64 : 0;
    const float *r = j->r;
    const float *xs[AOT_TILE_P];
    ptrdiff_t st[AOT_TILE_P];
    int32_t a, b, p;
#if AOT_TILE_RUNS == 1
    float sum[AOT_TILE_P * AOT_T_W], lost[AOT_TILE_P * AOT_T_W];
    int32_t since = 0;
    int flushed = 0;
#elif AOT_TILE_CUTS
    const int32_t run = j->run > 0 ? j->run : INT32_MAX - j->kblk;
    int32_t since = 0;
#endif
    AOT_T_EACH_O(AOT_T_BIAS)
    AOT_T_EACH_P(AOT_T_ACCS)
    for (a = 0; a < j->na; ++a) {
        for (b = 0; b < j->nb; ++b) {
            const ptrdiff_t tap = aot_tile_f32_step(j, a) + b * j->xb;
            int32_t left = j->kc;
#if AOT_TILE_WAYS && AOT_TILE_P >= 6
            if (AOT_TILE_RUNS != 2 && j->edge == AOT_TILE_EVEN) {
                const ptrdiff_t apart = j->off[1] - j->off[0];
                const float *x = j->x + (j->off[0] + tap);
                const float *half = x + (AOT_TILE_P > 7 ? 7 * apart : 0);
                while (left > 0) {
                    const int32_t n = left < j->kblk ? left : j->kblk;
                    const float *const end = x + n;
                    const ptrdiff_t jump = j->xstep - j->kblk;
                    AOT_T_RUN_OVER
                    while (end - x >= 2) {
                        AOT_PREFETCH((const void *)pf);
                        pf += pf_step;
                        AOT_T_STEP_EVEN
                        AOT_VORDER;
                        AOT_T_STEP_EVEN
                        AOT_VORDER;
                    }
                    if (x < end) {
                        AOT_T_STEP_EVEN
                    }
                    left -= n;
                    x += left > 0 ? jump : 0;
                    half += left > 0 ? jump : 0;
                }
                continue;
            }
            if (j->edge == AOT_TILE_CLOSE) {
                const float *x = j->x + (j->off[0] + tap);
                while (left > 0) {
                    const int32_t n = left < j->kblk ? left : j->kblk;
                    const float *const end = x + n;
                    AOT_T_RUN_OVER
                    while (end - x >= 2) {
                        AOT_PREFETCH((const void *)pf);
                        pf += pf_step;
                        AOT_T_STEP_CLOSE
                        AOT_VORDER;
                        AOT_T_STEP_CLOSE
                        AOT_VORDER;
                    }
                    if (x < end) {
                        AOT_T_STEP_CLOSE
                    }
                    left -= n;
                    x += left > 0 ? j->xstep - j->kblk : 0;
                }
                continue;
            }
#endif
            if (j->edge <= 0) {
                /* The pixels share the index k, which jumps from block to block. */
                const ptrdiff_t jump = AOT_VLEN == 1 ? 0 : j->xstep - j->kblk;
                ptrdiff_t k = 0;
                AOT_T_EACH_P(AOT_T_AT)
                while (left > 0) {
                    const int32_t n = left < j->kblk ? left : j->kblk;
                    const ptrdiff_t end = k + n;
                    AOT_T_RUN_OVER
                    while (k + 2 <= end) {
                        AOT_PREFETCH((const void *)pf);
                        pf += pf_step;
                        AOT_T_STEP
                        AOT_VORDER;
                        AOT_T_STEP
                        AOT_VORDER;
                    }
                    if (k < end) {
                        AOT_T_STEP
                    }
                    left -= n;
                    k += jump;
                }
                continue;
            }
            for (p = 0; p < AOT_TILE_P; ++p) {
                const int32_t row = j->row[p] + a * j->da;
                const int32_t col = j->col[p] + b * j->db;
                const int inside = row >= 0 && row < j->rows && col >= 0 && col < j->cols;
                xs[p] = inside ? j->x + (j->off[p] + tap) : aot_tile_f32_zeros;
                st[p] = inside ? j->xstep : 0;
            }
            while (left > 0) {
                const int32_t n = left < j->kblk ? left : j->kblk;
                ptrdiff_t k = 0;
                AOT_T_EACH_P(AOT_T_PTR)
                AOT_T_RUN_OVER
                while (k < n) {
                    AOT_T_STEP
                }
                left -= n;
                if (left > 0) {
                    for (p = 0; p < AOT_TILE_P; ++p) {
                        xs[p] += AOT_VLEN == 1 ? n * st[p] : st[p];
                    }
                }
            }
        }
    }
#if AOT_TILE_RUNS == 1
    if (flushed != 0) {
        AOT_T_EACH_P(AOT_T_TOTALS)
    }
#endif
    if (r != NULL) {
        AOT_T_EACH_P(AOT_T_ADDS)
    }
    if (j->clamp != 0) {
        const aot_vf lo = aot_vset1(j->lo);
        const aot_vf hi = aot_vset1(j->hi);
        if (AOT_TILE_WAYS && !(j->hi <= FLT_MAX)) { /* Relu's is infinite */
            AOT_T_EACH_P(AOT_T_LOWS)
        } else {
            AOT_T_EACH_P(AOT_T_CLAMPS)
        }
    }
    AOT_T_EACH_P(AOT_T_STORES)
}

#undef AOT_T_EACH_P
#undef AOT_T_EACH_O
#undef AOT_T_EACH_Q
#undef AOT_T_W
#undef AOT_T_BIAS
#undef AOT_T_ACC
#undef AOT_T_ACCS
#undef AOT_T_AT
#undef AOT_T_PTR
#undef AOT_T_RUN_OVER
#undef AOT_T_X
#undef AOT_T_LOAD
#undef AOT_T_SET
#undef AOT_T_APART
#undef AOT_T_FMA
#undef AOT_T_PIXEL
#undef AOT_T_STEP
#undef AOT_T_STEP_CLOSE
#undef AOT_T_STEP_EVEN
#undef AOT_T_EVEN_PIXEL
#undef AOT_T_NEXT_PIXEL
#undef AOT_T_LANE
#undef AOT_T_FLUSH
#undef AOT_T_FLUSHES
#undef AOT_T_TOTAL
#undef AOT_T_TOTALS
#undef AOT_T_KEEP
#undef AOT_T_KEEPS
#undef AOT_T_ADD
#undef AOT_T_ADDS
#undef AOT_T_LOW
#undef AOT_T_LOWS
#undef AOT_T_CLAMP
#undef AOT_T_CLAMPS
#undef AOT_T_STORE
#undef AOT_T_STORES
#undef AOT_TILE_P
