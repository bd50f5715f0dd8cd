/* SPDX-License-Identifier: MIT-0 */
/* Streams of codes: taken in pieces of any length they give what a reader of single bits gives;
 * streams of random bytes, or cut off, are read and written within their buffers. */
#include "elements.h"

#include "aot_unpack.h"

#define SYMBOLS 37
#define HEAD (AOT_UNPACK_HEAD + (SYMBOLS + 1) / 2)

/* Bits first to first + n - 1 of the stream, zeros past its end. */
static uint32_t bits_of(const uint8_t *stream, int64_t bytes, int64_t first, int n) {
    uint32_t value = 0;
    for (int i = 0; i < n; ++i) {
        const int64_t at = first + i;
        value = value << 1 | (at / 8 < bytes ? stream[at / 8] >> (7 - at % 8) & 1U : 0U);
    }
    return value;
}

/* The elements one after the other, from the lengths in the head. */
static void plain(uint8_t *y, int32_t n, int size, const uint8_t *stream, int64_t bytes, int runs) {
    int64_t at = 8 * HEAD;
    int32_t zeros = 0;
    for (int32_t i = 0; i < n; ++i) {
        uint32_t code = 0, value = 0;
        int found = zeros > 0;
        zeros -= zeros > 0;
        for (int length = 1, bits = 0; !found && length <= 15; ++length) {
            for (int s = 0; s < SYMBOLS && !found; ++s) {
                if ((stream[AOT_UNPACK_HEAD + s / 2] >> 4 * (s % 2) & 15) == length) {
                    code <<= length - bits;
                    bits = length;
                    if (bits_of(stream, bytes, at, length) == code) {
                        found = 1;
                        at += length;
                        if (runs && s == SYMBOLS - 1) {
                            zeros = AOT_UNPACK_RUN - 1;
                        } else {
                            value = (uint32_t)((int8_t)stream[2] + s) << stream[1] |
                                    bits_of(stream, bytes, at, stream[1]);
                            at += stream[1];
                        }
                    }
                    ++code;
                }
            }
        }
        CHECK(found);
        for (int b = 0; b < size; ++b) {
            y[i * size + b] = (uint8_t)(value >> 8 * b);
        }
    }
}

/* Any bytes are codes where the lengths are those of a complete code: here 5 of 3 bits, 5 of 5, 2
 * of 4, 12 of 7, 8 of 10, 5 of 11 … whose shares add up to one. */
static void test_codes(int size, int low, int runs) {
    static const int length[SYMBOLS] = {3, 3,  3,  3,  3,  5,  5,  5,  5,  5,  4, 4, 7,
                                        7, 7,  7,  7,  7,  7,  7,  8,  8,  8,  8, 9, 9,
                                        9, 10, 10, 10, 10, 11, 11, 11, 11, 11, 11};
    const int32_t n = 700;
    const int64_t bytes = HEAD + 700 * 4;
    uint8_t *stream = some_elements(bytes, 1), *y = NEW(uint8_t, n * size);
    uint8_t *want = NEW(uint8_t, n * size);
    uint16_t *table = NEW(uint16_t, 1 << 11);
    aot_unpack u;
    int32_t done = 0, sum = 0;
    check_case("elements of %d bytes, %d lower bits, runs %d", size, low, runs);
    for (int s = 0; s < SYMBOLS; ++s) {
        sum += 2048 >> length[s];
    }
    CHECK(sum <= 2048);
    stream[0] = 11;
    stream[1] = (uint8_t)low;
    stream[2] = (uint8_t)-17;
    stream[3] = SYMBOLS - 1;
    for (int s = 0; s < SYMBOLS + 1; s += 2) {
        const int second = s + 1 < SYMBOLS ? length[s + 1] : 0;
        stream[AOT_UNPACK_HEAD + s / 2] = (uint8_t)(length[s] | second << 4);
    }
    for (int64_t i = HEAD; i < bytes; ++i) { /* codes of 11 ones, which are none, cannot come */
        stream[i] &= 0x77;
    }
    CHECK(aot_unpack_word(stream + HEAD, 5) >> 7 == bits_of(stream, bytes, 8 * HEAD + 5, 25));
    plain(want, n, size, stream, bytes, runs);
    aot_unpack_begin(&u, stream, (int32_t)bytes, table, 11, runs);
    for (int step = 1; done < n; ++step) {
        const int32_t count = n - done < step ? n - done : step;
        aot_unpack_take(&u, y + done * size, count * size, size, runs);
        done += count;
    }
    same_bytes("y", y, want, (size_t)(n * size));
    check_free();
}

/* Elements of four bits: the codes of 16 symbols of one length, at any base. */
static void test_flat(int base, int cut) {
    const int32_t n = 901, bytes = AOT_UNPACK_HEAD + 8 + (n + 1) / 2;
    uint8_t *stream = some_elements(bytes, 1), *y = NEW(uint8_t, n), *want = NEW(uint8_t, n);
    uint16_t *table = NEW(uint16_t, 1 << 4);
    aot_unpack u;
    int32_t done = 0;
    check_case("four bits from %d on, in pieces from %d on", base, cut);
    stream[0] = 4;
    stream[1] = 0;
    stream[2] = (uint8_t)base;
    stream[3] = 15;
    memset(stream + AOT_UNPACK_HEAD, 0x44, 8);
    for (int32_t i = 0; i < n; ++i) {
        want[i] = (uint8_t)(base + (stream[AOT_UNPACK_HEAD + 8 + i / 2] >> (i % 2 ? 0 : 4) & 15));
    }
    aot_unpack_begin(&u, stream, bytes, table, 4, 0);
    for (int step = cut; done < n; ++step) {
        const int32_t count = n - done < step ? n - done : step;
        aot_unpack_take(&u, y + done, count, 1, AOT_UNPACK_FLAT);
        done += count;
    }
    same_bytes("y", y, want, (size_t)n);
    check_free();
}

static void test_damaged(void) {
    for (int k = 0; k < 300; ++k) {
        const int32_t bytes = (int32_t)check_integer(AOT_UNPACK_HEAD, k % 2 ? 400 : 30);
        const int32_t most = (int32_t)check_integer(1, 11), size = 1 << k % 3;
        uint8_t *stream = some_elements(bytes, 1), *y = NEW(uint8_t, 999 * size);
        uint16_t *table = NEW(uint16_t, 1 << most);
        aot_unpack u;
        check_case("%d random bytes, %d bits", (int)bytes, (int)most);
        aot_unpack_begin(&u, stream, bytes, table, most, k % 5 == 0);
        for (int i = 0; i < 9; ++i) {
            const int runs = k % 7 == 3 ? AOT_UNPACK_FLAT : k % 5 == 0;
            aot_unpack_take(&u, y + i * 111 * size, 111 * size, size, runs);
        }
        CHECK(u.longest <= most);
        check_free();
    }
}

int main(void) {
    for (int size = 1; size <= 4; size *= 2) {
        for (int low = 8 * (size - 1); low < 8 * size - 5 && low <= 24; low += 2) {
            test_codes(size, low, 0);
            test_codes(size, low, 1);
        }
    }
    for (int base = -128; base <= 112; base += 15) {
        test_flat(base, 1);
        test_flat(base, 64);
    }
    test_damaged();
    return check_end();
}
