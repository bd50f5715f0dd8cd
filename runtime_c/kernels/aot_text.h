/* SPDX-License-Identifier: MIT-0 */
/* Strings: W bytes of UTF-8 each, the rest of which is zero. */
#ifndef AOT_TEXT_H
#define AOT_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "aot/aot.h"
#include "aot/port.h"

/* Bytes of the string at s before the zeros, at most W. */
AOT_INLINE size_t aot_text_length(const unsigned char *s, int W) {
    const void *end = memchr(s, 0, (size_t)W);
    return end != NULL ? (size_t)((const unsigned char *)end - s) : (size_t)W;
}

typedef struct {
    int64_t n;    /* strings of the result */
    int32_t a, b; /* 1: an operand has as many, 0: it has one for all */
} aot_text_join_params;

/* y[n][W] = a followed by b. AOT_TOO_LONG if one has more than W bytes. y may not be a or b. */
AOT_INLINE aot_status aot_text_join(void *y, const void *a, const void *b,
                                    const aot_text_join_params *p, int W) {
    unsigned char *to = (unsigned char *)y;
    const unsigned char *left = (const unsigned char *)a, *right = (const unsigned char *)b;
    for (int64_t i = 0; i < p->n; ++i, to += W) {
        const size_t first = aot_text_length(left, W), second = aot_text_length(right, W);
        if (first + second > (size_t)W) {
            return AOT_TOO_LONG;
        }
        (void)memcpy(to, left, first);
        (void)memcpy(to + first, right, second);
        (void)memset(to + first + second, 0, (size_t)W - first - second);
        left += p->a != 0 ? W : 0;
        right += p->b != 0 ? W : 0;
    }
    return AOT_OK;
}

typedef struct {
    int64_t n;    /* strings */
    int32_t keys; /* strings of the list */
} aot_text_find_params;

/* y[n] = place of x[n][W] in keys[keys][W], which are in the order of memcmp, told by order[];
   the number of keys where it is not among them. No scratch. */
AOT_INLINE void aot_text_find(int64_t *y, const void *x, const void *keys, const int32_t *order,
                              const aot_text_find_params *p, int W) {
    const unsigned char *s = (const unsigned char *)x;
    for (int64_t i = 0; i < p->n; ++i, s += W) {
        int32_t low = 0, high = p->keys;
        y[i] = p->keys;
        while (low < high) {
            const int32_t mid = low + (high - low) / 2;
            const unsigned char *key = (const unsigned char *)keys + (size_t)mid * (size_t)W;
            const int sign = memcmp(s, key, (size_t)W);
            if (sign == 0) {
                y[i] = order[mid];
                break;
            }
            low = sign > 0 ? mid + 1 : low;
            high = sign > 0 ? high : mid;
        }
    }
}

typedef struct {
    int64_t n;     /* strings */
    int32_t width; /* classes of bytes: columns of the table */
} aot_text_match_params;

/* y[n] = whether x[n][W] is a word of the automaton: from state 0, byte c leads from state s to
   table[s][classes[c]]; it ends well where accepts[s] is not 0. No scratch. */
AOT_INLINE void aot_text_match(uint8_t *y, const void *x, const uint16_t *table,
                               const uint8_t *classes, const uint8_t *accepts,
                               const aot_text_match_params *p, int W) {
    const unsigned char *s = (const unsigned char *)x;
    for (int64_t i = 0; i < p->n; ++i, s += W) {
        const size_t length = aot_text_length(s, W);
        uint16_t state = 0;
        for (size_t k = 0; k < length; ++k) {
            state = table[(size_t)state * (size_t)p->width + classes[s[k]]];
        }
        y[i] = accepts[state] != 0 ? 1 : 0;
    }
}

/* The code point at s[*at] of a string of `length` bytes, after which *at is behind it; a byte that
   begins no code point stands for itself with bit 31 set. */
AOT_INLINE uint32_t aot_text_decode(const unsigned char *s, size_t length, size_t *at) {
    const uint32_t first = s[*at];
    const size_t more = first < 0xC2U ? 0U : first < 0xE0U ? 1U : first < 0xF0U ? 2U : 3U;
    uint32_t code = more == 0U ? first : first & (0x3FU >> more);
    if ((first >= 0x80U && more == 0U) || first > 0xF4U || *at + more >= length) {
        ++*at;
        return first < 0x80U ? first : first | 0x80000000U;
    }
    for (size_t k = 1; k <= more; ++k) {
        if ((s[*at + k] & 0xC0U) != 0x80U) {
            ++*at;
            return first | 0x80000000U;
        }
        code = code << 6 | (s[*at + k] & 0x3FU);
    }
    *at += more + 1U;
    return code;
}

/* The UTF-8 of a code point; how many bytes that are. */
AOT_INLINE size_t aot_text_encode(unsigned char out[4], uint32_t code) {
    const size_t more = (code & 0x80000000U) != 0U || code < 0x80U ? 0U
                        : code < 0x800U                            ? 1U
                        : code < 0x10000U                          ? 2U
                                                                   : 3U;
    for (size_t k = more; k > 0; --k) {
        out[k] = (unsigned char)(0x80U | (code & 0x3FU));
        code >>= 6;
    }
    out[0] = (unsigned char)(more == 0U ? code : ((0xFF00U >> (more + 1U)) & 0xFFU) | code);
    return more + 1U;
}

/* to[W] = s[W] with every code point pairs[i][0] (in order of i < count) replaced by pairs[i][1].
   AOT_TOO_LONG if that has more than W bytes. */
static inline aot_status aot_text_recased(unsigned char *to, const unsigned char *s,
                                          const uint32_t *pairs, int32_t count, int W) {
    const size_t length = aot_text_length(s, W);
    size_t at = 0, end = 0;
    while (at < length) {
        unsigned char bytes[4];
        uint32_t code = aot_text_decode(s, length, &at);
        int32_t low = 0, high = count;
        size_t size;
        while (low < high) {
            const int32_t mid = low + (high - low) / 2;
            const uint32_t *pair = pairs + 2 * (ptrdiff_t)mid;
            if (pair[0] == code) {
                code = pair[1];
                break;
            }
            low = pair[0] < code ? mid + 1 : low;
            high = pair[0] < code ? high : mid;
        }
        size = aot_text_encode(bytes, code);
        if (end + size > (size_t)W) {
            return AOT_TOO_LONG;
        }
        (void)memcpy(to + end, bytes, size);
        end += size;
    }
    (void)memset(to + end, 0, (size_t)W - end);
    return AOT_OK;
}

typedef struct {
    int64_t n;     /* strings */
    int32_t pairs; /* rows of the table */
} aot_text_case_params;

/* y[n][W] = x[n][W], each as aot_text_recased makes it. y may not be x. No scratch. */
AOT_INLINE aot_status aot_text_case(void *y, const void *x, const uint32_t *pairs,
                                    const aot_text_case_params *p, int W) {
    unsigned char *to = (unsigned char *)y;
    const unsigned char *s = (const unsigned char *)x;
    for (int64_t i = 0; i < p->n; ++i, s += W, to += W) {
        const aot_status status = aot_text_recased(to, s, pairs, p->pairs, W);
        if (status != AOT_OK) {
            return status;
        }
    }
    return AOT_OK;
}

typedef struct {
    int64_t n;     /* strings of x */
    int32_t most;  /* strings of y: n, but 1 at least */
    int32_t stops; /* stop words */
    int32_t pairs; /* rows of the table for the result, 0: it keeps its case */
    int32_t lower; /* rows of the table for the comparison, 0: case counts */
} aot_text_keep_params;

/* y[most][W] = the strings of x[n][W] that are no stop word, in the case of `pairs`; "" alone where
   all are. kept[1] = how many these are; zeros behind. stops[stops][W] are in the case of `lower`.
   work: W bytes of scratch. y may not be x. */
AOT_INLINE aot_status aot_text_keep(void *y, int64_t *kept, const void *x, const void *stops,
                                    const uint32_t *pairs, const uint32_t *lower, void *work,
                                    const aot_text_keep_params *p, int W) {
    unsigned char *to = (unsigned char *)y;
    const unsigned char *s = (const unsigned char *)x;
    int64_t count = 0;
    for (int64_t i = 0; i < p->n; ++i, s += W) {
        const unsigned char *seen = s;
        int stop = 0;
        if (p->lower > 0) { /* what grows beyond W bytes is no stop word: these have room */
            unsigned char *low = (unsigned char *)work;
            seen = aot_text_recased(low, s, lower, p->lower, W) == AOT_OK ? low : NULL;
        }
        for (int32_t k = 0; k < p->stops && seen != NULL && stop == 0; ++k) {
            const unsigned char *word = (const unsigned char *)stops + (size_t)k * (size_t)W;
            stop = memcmp(seen, word, (size_t)W) == 0;
        }
        if (stop == 0) {
            const aot_status status =
                aot_text_recased(to + (size_t)count * (size_t)W, s, pairs, p->pairs, W);
            if (status != AOT_OK) {
                return status;
            }
            ++count;
        }
    }
    (void)memset(to + (size_t)count * (size_t)W, 0, ((size_t)p->most - (size_t)count) * (size_t)W);
    kept[0] = count > 0 ? count : 1;
    return AOT_OK;
}

typedef struct {
    int64_t n;      /* strings of x */
    int32_t most;   /* pieces that a string has room for */
    int32_t splits; /* cuts at most, -1: any number */
    int32_t mark;   /* bytes of the mark, 0: runs of blanks */
} aot_text_split_params;

AOT_INLINE int aot_text_blank(unsigned char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Cut one string s[W] at the mark, or at runs of blanks, into y[most][W]; the number of pieces. */
static inline int64_t aot_text_cut(unsigned char *y, const unsigned char *s,
                                   const unsigned char *mark, const aot_text_split_params *p,
                                   int W) {
    const size_t length = aot_text_length(s, W), size = (size_t)p->mark;
    size_t at = 0;
    int64_t count = 0;
    for (;;) {
        const int last = p->splits >= 0 && count >= p->splits;
        size_t end;
        while (size == 0 && at < length && aot_text_blank(s[at]) != 0) {
            ++at;
        }
        if ((size == 0 && at >= length) || count >= p->most) {
            return count;
        }
        end = at;
        while (end < length) {
            const int here = size == 0 ? aot_text_blank(s[end])
                                       : length - end >= size && memcmp(s + end, mark, size) == 0;
            if (last == 0 && here != 0) {
                break;
            }
            ++end;
        }
        (void)memcpy(y + (size_t)count * (size_t)W, s + at, end - at);
        ++count;
        if (end >= length) {
            return count;
        }
        at = end + (size == 0 ? 1U : size);
    }
}

/* y[n][most][W] = the pieces of x[n][W], zeros behind; counts[n] = how many each has, longest[1]
   the most of these. No scratch. */
AOT_INLINE void aot_text_split(void *y, int64_t *counts, int64_t *longest, const void *x,
                               const void *mark, const aot_text_split_params *p, int W) {
    unsigned char *to = (unsigned char *)y;
    const unsigned char *s = (const unsigned char *)x;
    const size_t row = (size_t)p->most * (size_t)W;
    longest[0] = 0;
    for (int64_t i = 0; i < p->n; ++i, s += W, to += row) {
        (void)memset(to, 0, row);
        counts[i] = aot_text_cut(to, s, (const unsigned char *)mark, p, W);
        longest[0] = counts[i] > longest[0] ? counts[i] : longest[0];
    }
}

typedef struct {
    int64_t n;     /* strings of x */
    int32_t most;  /* tokens that a string has room for */
    int32_t width; /* classes of bytes: columns of the table */
    int32_t least; /* code points of a token at least */
    int32_t marks; /* 1: a token of byte 2 begins a string, one of byte 3 ends it */
} aot_text_tokens_params;

AOT_INLINE int aot_text_in_word(unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

/* The end of the longest word of the automaton that begins at byte `at` of s, `at` without one. */
AOT_INLINE size_t aot_text_longest(const unsigned char *s, size_t length, size_t at,
                                   const uint16_t *table, const uint8_t *classes,
                                   const uint8_t *accepts, int32_t width) {
    uint16_t state = 0;
    size_t end = at, k = at;
    if (at > 0) {
        state = aot_text_in_word(s[at - 1U]) != 0 ? 2 : 3;
    }
    while (k < length && state != 1) {
        state = table[(size_t)state * (size_t)width + classes[s[k]]];
        ++k;
        if (accepts[state * 3U + (k == length ? 0U : aot_text_in_word(s[k]) != 0 ? 1U : 2U)] != 0) {
            end = k;
        }
    }
    return end;
}

/* Put s[size] behind the `count` tokens of a string that y[most][W] has. */
AOT_INLINE int64_t aot_text_token(unsigned char *y, int64_t count, const unsigned char *s,
                                  size_t size, int W) {
    unsigned char *to = y + (size_t)count * (size_t)W;
    (void)memcpy(to, s, size);
    (void)memset(to + size, 0, (size_t)W - size);
    return count + 1;
}

/* y[n][most][W] = the tokens of x[n][W], `pad`[W] behind them; longest[1] = the most that one has.
   They are the longest words of the automaton from left to right (regex.py): state 0 begins, 2
   behind a byte of a word and 3 behind another one, 1 is a trap, accepts[state][3] is for the end,
   a byte of a word and another one ahead. No scratch. */
AOT_INLINE void aot_text_tokens(void *y, int64_t *longest, const void *x, const uint16_t *table,
                                const uint8_t *classes, const uint8_t *accepts, const void *pad,
                                const aot_text_tokens_params *p, int W) {
    static const unsigned char marks[2] = {2, 3};
    unsigned char *to = (unsigned char *)y;
    const unsigned char *s = (const unsigned char *)x;
    longest[0] = 0;
    for (int64_t i = 0; i < p->n; ++i, s += W, to += (size_t)p->most * (size_t)W) {
        const size_t length = aot_text_length(s, W);
        int64_t count = p->marks != 0 ? aot_text_token(to, 0, marks, 1, W) : 0;
        size_t at = 0;
        while (at < length && count < p->most - p->marks) {
            const size_t end = aot_text_longest(s, length, at, table, classes, accepts, p->width);
            size_t from = at;
            int32_t codes = 0;
            while (from < end) {
                (void)aot_text_decode(s, length, &from);
                ++codes;
            }
            if (codes >= p->least) {
                count = aot_text_token(to, count, s + at, end - at, W);
            }
            from = at;
            if (end == at) {
                (void)aot_text_decode(s, length, &from);
            }
            at = end > at ? end : from;
        }
        count = p->marks != 0 ? aot_text_token(to, count, marks + 1, 1, W) : count;
        /* Without any token there are no marks, either. */
        longest[0] = count > longest[0] && count > 2 * p->marks ? count : longest[0];
        for (; count < p->most; ++count) {
            (void)memcpy(to + (size_t)count * (size_t)W, pad, (size_t)W);
        }
    }
}

#endif /* AOT_TEXT_H */
