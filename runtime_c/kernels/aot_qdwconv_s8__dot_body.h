/* SPDX-License-Identifier: MIT-0 */
/* A block of aot_qdwconv_s8__dot.h on x86-64, by vectors of AOT_QDW_W int32 (16 or 8); no guard: it
 * is included once for each. */
#if AOT_QDW_W == 16
#define AOT_QDW_V __m512i
#define AOT_QDW_(op) _mm512_##op
#define AOT_QDW_XOR _mm512_xor_si512
#define AOT_QDW_DOT(acc, x, w) _mm512_dpbusd_epi32(acc, x, w)
#else
#define AOT_QDW_V __m256i
#define AOT_QDW_(op) _mm256_##op
#define AOT_QDW_XOR _mm256_xor_si256
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
#define AOT_QDW_DOT(acc, x, w) _mm256_dpbusd_epi32(acc, x, w)
#else
#define AOT_QDW_DOT(acc, x, w) _mm256_dpbusd_avx_epi32(acc, x, w)
#endif
#endif
#define AOT_QDW_F(name) AOT_QDW_JOIN(name, AOT_QDW_W)
#define AOT_QDW_BYTES (4 * AOT_QDW_W)

AOT_INLINE AOT_QDW_V AOT_QDW_F(aot_qdw_load_)(const void *p) {
    AOT_QDW_V v;
    (void)memcpy(&v, p, sizeof v);
    return v;
}

AOT_INLINE void AOT_QDW_F(aot_qdw_put_)(void *p, AOT_QDW_V v) {
    (void)memcpy(p, &v, sizeof v);
}

/* n bytes, zeros behind them. */
AOT_INLINE AOT_QDW_V AOT_QDW_F(aot_qdw_some_)(const int8_t *p, int32_t n) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    return AOT_QDW_JOIN(AOT_QDW_MASKED_, AOT_QDW_W)(p, n);
#else
    int8_t some[AOT_QDW_BYTES] = {0};
    if (n == AOT_QDW_BYTES) {
        return AOT_QDW_F(aot_qdw_load_)(p);
    }
    (void)memcpy(some, p, (size_t)n);
    return AOT_QDW_F(aot_qdw_load_)(some);
#endif
}

/* A column of the window's rows: bytes of four rows side by side. */
AOT_INLINE void AOT_QDW_F(aot_qdw_column_)(int32_t *to, AOT_QDW_V a, AOT_QDW_V b, AOT_QDW_V c,
                                           AOT_QDW_V d) {
    const AOT_QDW_V flip = AOT_QDW_(set1_epi8)((char)AOT_QDW_FLIP);
    const AOT_QDW_V ab = AOT_QDW_XOR(AOT_QDW_(unpacklo_epi8)(a, b), flip);
    const AOT_QDW_V ba = AOT_QDW_XOR(AOT_QDW_(unpackhi_epi8)(a, b), flip);
    const AOT_QDW_V cd = AOT_QDW_XOR(AOT_QDW_(unpacklo_epi8)(c, d), flip);
    const AOT_QDW_V dc = AOT_QDW_XOR(AOT_QDW_(unpackhi_epi8)(c, d), flip);
    AOT_QDW_F(aot_qdw_put_)(to, AOT_QDW_(unpacklo_epi16)(ab, cd));
    AOT_QDW_F(aot_qdw_put_)(to + AOT_QDW_W, AOT_QDW_(unpackhi_epi16)(ab, cd));
    AOT_QDW_F(aot_qdw_put_)(to + 2 * AOT_QDW_W, AOT_QDW_(unpacklo_epi16)(ba, dc));
    AOT_QDW_F(aot_qdw_put_)(to + 3 * AOT_QDW_W, AOT_QDW_(unpackhi_epi16)(ba, dc));
}

/* Interleaves the columns of four rows of the window, those of a group, `next` int32 apart. */
AOT_INLINE void AOT_QDW_F(aot_qdw_fill_)(const aot_qdw_part *t, int32_t *to, ptrdiff_t next) {
    const AOT_QDW_V pad = AOT_QDW_F(aot_qdw_load_)(t->pad);
    const int8_t *a = t->x[0], *b = t->x[1], *c = t->x[2], *d = t->x[3];
    const int32_t n = t->n;
    int32_t i;
    for (i = 0; i < t->left; ++i, to += next) {
        AOT_QDW_F(aot_qdw_column_)(to, pad, pad, pad, pad);
    }
    for (; i < t->right; ++i, to += next) {
        AOT_QDW_F(aot_qdw_column_)
        (to, AOT_QDW_F(aot_qdw_some_)(a, n), AOT_QDW_F(aot_qdw_some_)(b, n),
         AOT_QDW_F(aot_qdw_some_)(c, n), AOT_QDW_F(aot_qdw_some_)(d, n));
        a += t->step[0];
        b += t->step[1];
        c += t->step[2];
        d += t->step[3];
    }
    for (; i < t->count; ++i, to += next) {
        AOT_QDW_F(aot_qdw_column_)(to, pad, pad, pad, pad);
    }
}

/* The rounded product of sums, before its zero point: as aot_qdot_direct_vector. */
AOT_INLINE AOT_QDW_V AOT_QDW_F(aot_qdw_scaled_)(AOT_QDW_V sum, const int32_t *mult) {
    return AOT_QDW_(cvtps_epi32)(AOT_QDW_(min_ps)(
        AOT_QDW_(mul_ps)(AOT_QDW_(cvtepi32_ps)(sum),
                         AOT_QDW_JOIN(AOT_QDW_CAST_, AOT_QDW_W)(AOT_QDW_F(aot_qdw_load_)(mult))),
        AOT_QDW_(set1_ps)(1073741824.0F)));
}

/* Values of a pixel's four vectors of sums. */
AOT_INLINE void AOT_QDW_F(aot_qdw_store_)(int8_t *y, AOT_QDW_V a, AOT_QDW_V b, AOT_QDW_V c,
                                          AOT_QDW_V d, const aot_qdw_part *t,
                                          const aot_qdwconv_s8_params *p) {
    const AOT_QDW_V zero = AOT_QDW_(set1_epi16)((short)p->y_zero);
    const AOT_QDW_V low = AOT_QDW_(packs_epi32)(AOT_QDW_F(aot_qdw_scaled_)(a, t->mult),
                                                AOT_QDW_F(aot_qdw_scaled_)(b, t->mult + AOT_QDW_W));
    const AOT_QDW_V high =
        AOT_QDW_(packs_epi32)(AOT_QDW_F(aot_qdw_scaled_)(c, t->mult + 2 * AOT_QDW_W),
                              AOT_QDW_F(aot_qdw_scaled_)(d, t->mult + 3 * AOT_QDW_W));
    AOT_QDW_V v =
        AOT_QDW_(packs_epi16)(AOT_QDW_(adds_epi16)(low, zero), AOT_QDW_(adds_epi16)(high, zero));
    v = AOT_QDW_(min_epi8)(v, AOT_QDW_(set1_epi8)((char)p->hi));
    v = AOT_QDW_(max_epi8)(v, AOT_QDW_(set1_epi8)((char)p->lo));
    if (t->n == AOT_QDW_BYTES) {
        (void)memcpy(y, &v, sizeof v);
    } else {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
        AOT_QDW_JOIN(AOT_QDW_STORE_, AOT_QDW_W)(y, t->n, v);
#else
        (void)memcpy(y, &v, (size_t)t->n);
#endif
    }
}

/* Four results side by side: sums of the vectors a, b, c, d of each are variables of their own. */
#define AOT_QDW_TAP(i)                                                                             \
    a##i = AOT_QDW_DOT(a##i, AOT_QDW_F(aot_qdw_load_)(x + (i)*step), w0);                          \
    b##i = AOT_QDW_DOT(b##i, AOT_QDW_F(aot_qdw_load_)(x + (i)*step + AOT_QDW_W), w1);              \
    c##i = AOT_QDW_DOT(c##i, AOT_QDW_F(aot_qdw_load_)(x + (i)*step + 2 * AOT_QDW_W), w2);          \
    d##i = AOT_QDW_DOT(d##i, AOT_QDW_F(aot_qdw_load_)(x + (i)*step + 3 * AOT_QDW_W), w3);
#define AOT_QDW_BEGIN(i) AOT_QDW_V a##i = bias0, b##i = bias1, c##i = bias2, d##i = bias3;
#define AOT_QDW_END(i)                                                                             \
    if ((i) < n) {                                                                                 \
        AOT_QDW_F(aot_qdw_store_)(y + (i)*p->oc, a##i, b##i, c##i, d##i, t, p);                    \
    }

/* `n` of four results whose columns begin at `from`. */
AOT_INLINE void AOT_QDW_F(aot_qdw_four_)(int8_t *y, const int32_t *from, const aot_qdw_part *t,
                                         const aot_qdwconv_s8_params *p, int32_t n, int KW, int G) {
    const ptrdiff_t column = (ptrdiff_t)G * 4 * AOT_QDW_W, step = p->sw * column;
    const ptrdiff_t next = p->dw * column;
    const AOT_QDW_V bias0 = AOT_QDW_F(aot_qdw_load_)(t->bias);
    const AOT_QDW_V bias1 = AOT_QDW_F(aot_qdw_load_)(t->bias + AOT_QDW_W);
    const AOT_QDW_V bias2 = AOT_QDW_F(aot_qdw_load_)(t->bias + 2 * AOT_QDW_W);
    const AOT_QDW_V bias3 = AOT_QDW_F(aot_qdw_load_)(t->bias + 3 * AOT_QDW_W);
    const int8_t *w = t->w;
    int32_t set, b, g;
    AOT_QDW_BEGIN(0)
    AOT_QDW_BEGIN(1) AOT_QDW_BEGIN(2) AOT_QDW_BEGIN(3) for (set = 0; set < t->sets; ++set) {
        /* Unrolled, gcc would load so early that sums lose their registers. */
        AOT_UNROLL(1) for (b = 0; b < KW; ++b) {
            AOT_UNROLL(1) for (g = 0; g < G; ++g, w += 16 * AOT_QDW_W) {
                const int32_t *const x = from + b * next + (ptrdiff_t)g * 4 * AOT_QDW_W;
                const AOT_QDW_V w0 = AOT_QDW_F(aot_qdw_load_)(w);
                const AOT_QDW_V w1 = AOT_QDW_F(aot_qdw_load_)(w + 4 * AOT_QDW_W);
                const AOT_QDW_V w2 = AOT_QDW_F(aot_qdw_load_)(w + 8 * AOT_QDW_W);
                const AOT_QDW_V w3 = AOT_QDW_F(aot_qdw_load_)(w + 12 * AOT_QDW_W);
                AOT_QDW_TAP(0) AOT_QDW_TAP(1) AOT_QDW_TAP(2) AOT_QDW_TAP(3)
            }
        }
    }
    AOT_QDW_END(0) AOT_QDW_END(1) AOT_QDW_END(2) AOT_QDW_END(3)
}

/* `results` results of a row, of the channels from c on; ix is their first column. */
AOT_INLINE void AOT_QDW_F(aot_qdw_part_)(aot_qdw_part *t, const int8_t *x,
                                         const aot_qdwconv_s8_params *p, int32_t iy, int32_t ix,
                                         int32_t c, int32_t results, int KW, int G) {
    const ptrdiff_t next = (ptrdiff_t)G * 4 * AOT_QDW_W;
    const int32_t at = (ix + t->left) * p->ic + c;
    int32_t g, i, ox;
    for (g = 0; g < G; ++g) {
        for (i = 0; i < 4; ++i) {
            const int32_t a = 4 * g + i, row = iy + a * p->dh;
            t->x[i] = t->pad;
            t->step[i] = 0;
            if (a < p->kh && row >= 0 && row < p->ih && t->left < t->right) {
                t->x[i] = AOT_AT(x, row - p->x_row0, at,
                                 x + (ptrdiff_t)(row - p->x_row0) * p->iw * p->ic + at);
                t->step[i] = p->ic;
            }
        }
        AOT_QDW_F(aot_qdw_fill_)(t, t->columns + (ptrdiff_t)g * 4 * AOT_QDW_W, next);
    }
    for (ox = 0; ox < results; ox += 4) {
        AOT_QDW_F(aot_qdw_four_)
        (t->y + (ptrdiff_t)ox * p->oc, t->columns + ox * p->sw * next, t, p, results - ox, KW, G);
    }
}

#undef AOT_QDW_V
#undef AOT_QDW_
#undef AOT_QDW_XOR
#undef AOT_QDW_DOT
#undef AOT_QDW_F
#undef AOT_QDW_BYTES
#undef AOT_QDW_TAP
#undef AOT_QDW_BEGIN
#undef AOT_QDW_END
