/* SPDX-License-Identifier: MIT-0 */
/* Strings of W bytes, the rest of which is zero, against the C library's functions of strings. */
#include "check.h"

#include "aot_text.h"

enum { W = 12 };
static const char *const words[] = {"",
                                    "a",
                                    "Ab",
                                    "abc abc",
                                    "\xC3\x84pfel",
                                    "  x y ",
                                    "a,b,,c",
                                    "no",
                                    "123456789012",
                                    ",",
                                    "\xE2\x82\xAC"
                                    "5",
                                    "zz"};
enum { COUNT = (int)(sizeof words / sizeof *words) };

static void put_word(uint8_t *to, const char *word) {
    (void)memset(to, 0, W);
    (void)memcpy(to, word, strlen(word));
}
static uint8_t *all_words(void) {
    uint8_t *x = NEW(uint8_t, COUNT * W);
    for (int i = 0; i < COUNT; ++i) {
        put_word(x + i * W, words[i]);
    }
    return x;
}
static void same_word(const char *what, const uint8_t *got, const char *word) {
    uint8_t want[W];
    put_word(want, word);
    same_bytes(what, got, want, W);
}

static void test_join(void) {
    const aot_text_join_params p = {COUNT, 1, 0};
    uint8_t *x = all_words(), *y = NEW(uint8_t, COUNT * W), tail[W];
    char text[2 * W + 1];
    check_case("join");
    put_word(tail, "!?");
    put_word(x + 8 * W, "1234567890"); /* two bytes shorter, so that both fit to the last byte */
    CHECK(aot_text_join(y, x, tail, &p, W) == AOT_OK);
    for (int i = 0; i < COUNT; ++i) {
        (void)snprintf(text, sizeof text, "%s!?", i == 8 ? "1234567890" : words[i]);
        same_word("joined", y + i * W, text);
    }
    put_word(x + 8 * W, "12345678901");
    CHECK(aot_text_join(y, x, tail, &p, W) == AOT_TOO_LONG);
    CHECK(aot_text_length(x + 3 * W, W) == 7 &&
          aot_text_length((const unsigned char *)"xyz", 3) == 3);
    check_free();
}

static int by_bytes(const void *a, const void *b) {
    return memcmp(a, b, W);
}

static void test_find(void) {
    const aot_text_find_params p = {COUNT, 7};
    static const char *const list[7] = {"no", "zz", "a", "", "Ab", "b", "123456789012"};
    uint8_t *x = all_words(), keys[7][W];
    int32_t order[7] = {0};
    int64_t y[COUNT];
    check_case("find");
    for (int i = 0; i < 7; ++i) {
        put_word(keys[i], list[i]);
    }
    qsort(keys, 7, W, by_bytes);
    for (int i = 0; i < 7; ++i) {
        for (int k = 0; k < 7; ++k) {
            order[i] = strncmp((const char *)keys[i], list[k], W) == 0 ? k : order[i];
        }
    }
    aot_text_find(y, x, keys, order, &p, W);
    for (int i = 0; i < COUNT; ++i) {
        int64_t want = 7;
        for (int k = 0; k < 7; ++k) {
            want = strcmp(words[i], list[k]) == 0 ? k : want;
        }
        same_at("place", i, y[i], want);
    }
    check_free();
}

/* The automaton of "a word of lower-case letters": classes 0 letter, 1 other; state 2 is a trap. */
static void test_match(void) {
    const aot_text_match_params p = {COUNT, 2};
    static const uint16_t table[6] = {1, 2, 1, 2, 2, 2};
    static const uint8_t accepts[3] = {0, 7, 0};
    uint8_t *x = all_words(), classes[256], y[COUNT];
    check_case("match");
    for (int c = 0; c < 256; ++c) {
        classes[c] = c < 'a' || c > 'z';
    }
    aot_text_match(y, x, table, classes, accepts, &p, W);
    for (int i = 0; i < COUNT; ++i) {
        const size_t length = strlen(words[i]);
        same_at("match", i, y[i],
                length > 0 && strspn(words[i], "abcdefghijklmnopqrstuvwxyz") == length);
    }
    check_free();
}

/* Code points A, b, U+00C4 and U+20AC become others, of more bytes and of fewer. */
static const uint32_t pairs[8] = {'A', 'a', 'b', 0xDF, 0xC4, 0xE4, 0x20AC, 'E'};

static void test_case_of(void) {
    const aot_text_case_params p = {COUNT, 4};
    uint8_t *x = all_words(), *y = NEW(uint8_t, COUNT * W);
    static const char *const want[COUNT] = {"",
                                            "a",
                                            "a\xC3\x9F",
                                            "a\xC3\x9F"
                                            "c a\xC3\x9F"
                                            "c",
                                            "\xC3\xA4pfel",
                                            "  x y ",
                                            "a,\xC3\x9F,,c",
                                            "no",
                                            "123456789012",
                                            ",",
                                            "E5",
                                            "zz"};
    size_t at = 0;
    check_case("case");
    CHECK(aot_text_case(y, x, pairs, &p, W) == AOT_OK);
    for (int i = 0; i < COUNT; ++i) {
        same_word("recased", y + i * W, want[i]);
    }
    put_word(x, "bbbbbbb"); /* fourteen bytes */
    CHECK(aot_text_case(y, x, pairs, &p, W) == AOT_TOO_LONG);
    /* Four bytes are U+1F600; a byte that begins nothing stands for itself. */
    CHECK(aot_text_decode((const unsigned char *)"\xF0\x9F\x98\x80", 4, &at) == 0x1F600U &&
          at == 4);
    at = 0;
    CHECK(aot_text_decode((const unsigned char *)"\xBFz", 2, &at) == (0xBFU | 0x80000000U) &&
          at == 1);
    at = 0;
    CHECK(aot_text_decode((const unsigned char *)"\xE2\x82", 2, &at) == (0xE2U | 0x80000000U) &&
          at == 1);
    check_free();
}

/* Stop words are "no" and "ab" in lower case. */
static void test_keep(int lower) {
    static const uint32_t small[2] = {'A', 'a'};
    const aot_text_keep_params p = {COUNT, COUNT, 2, 0, lower ? 1 : 0};
    uint8_t *x = all_words(), *y = NEW(uint8_t, COUNT * W), stops[2][W], work[W];
    int64_t kept = -1, at = 0;
    check_case("keep, lower %d", lower);
    put_word(stops[0], "no");
    put_word(stops[1], "ab");
    CHECK(aot_text_keep(y, &kept, x, stops, pairs, small, work, &p, W) == AOT_OK);
    for (int i = 0; i < COUNT; ++i) {
        if (strcmp(words[i], "no") != 0 && !(lower && strcmp(words[i], "Ab") == 0)) {
            same_word("kept", y + at++ * W, words[i]);
        }
    }
    same_at("number", 0, kept, at);
    for (; at < COUNT; ++at) {
        same_word("behind", y + at * W, "");
    }
    check_free();
}

/* Pieces between marks, of which none is left out, or between runs of blanks. */
static void test_split(const char *mark, int splits) {
    enum { MOST = 6 };
    const aot_text_split_params p = {COUNT, MOST, splits, (int32_t)strlen(mark)};
    uint8_t *x = all_words(), *y = NEW(uint8_t, COUNT * MOST * W);
    int64_t counts[COUNT], longest = -1, most = 0;
    check_case("split at \"%s\", %d times", mark, splits);
    aot_text_split(y, counts, &longest, x, mark, &p, W);
    for (int i = 0; i < COUNT; ++i) {
        const char *rest = words[i];
        int64_t count = 0;
        for (;;) {
            char piece[W + 1];
            const char *end;
            rest += *mark == 0 ? strspn(rest, " ") : 0;
            if (*mark == 0 && *rest == 0) {
                break;
            }
            end = *mark != 0 ? strstr(rest, mark) : strchr(rest, ' ');
            end = end == NULL || (splits >= 0 && count >= splits) ? rest + strlen(rest) : end;
            (void)snprintf(piece, sizeof piece, "%.*s", (int)(end - rest), rest);
            same_word("piece", y + (i * MOST + count++) * W, piece);
            if (*end == 0) {
                break;
            }
            rest = end + (*mark == 0 ? 1 : strlen(mark));
        }
        same_at("count", i, counts[i], count);
        most = count > most ? count : most;
        for (; count < MOST; ++count) {
            same_word("behind", y + (i * MOST + count) * W, "");
        }
    }
    same_at("longest", 0, longest, most);
    check_free();
}

int main(void) {
    test_join();
    test_find();
    test_match();
    test_case_of();
    test_keep(0);
    test_keep(1);
    for (int splits = -1; splits < 4; ++splits) {
        test_split(",", splits);
        test_split("abc", splits);
        test_split("", splits);
    }
    return check_end();
}
