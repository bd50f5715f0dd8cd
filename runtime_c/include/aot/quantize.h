/* SPDX-License-Identifier: MIT-0 */
/* From numbers to the quantised values that stand for them, and back: q stands for
 * (q - zero_point) * scale. What NAME_quantize_input and NAME_dequantize_output of NAME.h call. */
#ifndef AOT_QUANTISED_ENDS_H
#define AOT_QUANTISED_ENDS_H

#include <stddef.h>
#include <stdint.h>

/* The tensor [outer][channels][inner], with a scale and a zero point for each channel. Its type has
 * the values from `least` to `most`: 8 or 16 bits. */
typedef struct aot_quantisation {
    const float *scales;
    const int32_t *zero_points;
    size_t outer, channels, inner;
    int32_t least, most;
} aot_quantisation;

/* The quantised value of a number: the nearest one, of two the even one, before the zero point is
 * added (as QuantizeLinear of ONNX); saturated. The zero point for NaN. */
static inline int32_t aot_quantized(float number, float scale, int32_t zero_point, int32_t least,
                                    int32_t most) {
    const float units = number / scale;
    int32_t whole;
    float rest;
    if (units <= (float)(least - zero_point)) {
        return least;
    }
    if (units >= (float)(most - zero_point)) {
        return most;
    }
    if (!(units > (float)(least - zero_point))) {
        return zero_point; /* NaN */
    }
    whole = (int32_t)units; /* towards 0; it and the rest are exact */
    rest = units - (float)whole;
    if (rest > 0.5F || (rest == 0.5F && whole % 2 != 0)) {
        ++whole;
    } else if (rest < -0.5F || (rest == -0.5F && whole % 2 != 0)) {
        --whole;
    }
    return whole + zero_point;
}

static inline void aot_quantize(const aot_quantisation *how, const float *numbers,
                                void *quantised) {
    const size_t count = how->outer * how->channels * how->inner;
    size_t i;
    for (i = 0; i < count; ++i) {
        const size_t c = i / how->inner % how->channels;
        const int32_t q =
            aot_quantized(numbers[i], how->scales[c], how->zero_points[c], how->least, how->most);
        if (how->most - how->least > 255) {
            ((uint16_t *)quantised)[i] = (uint16_t)(q & 0xFFFF);
        } else {
            ((uint8_t *)quantised)[i] = (uint8_t)(q & 0xFF);
        }
    }
}

static inline void aot_dequantize(const aot_quantisation *how, const void *quantised,
                                  float *numbers) {
    const size_t count = how->outer * how->channels * how->inner;
    const int32_t range = how->most - how->least + 1;
    size_t i;
    for (i = 0; i < count; ++i) {
        const size_t c = i / how->inner % how->channels;
        int32_t q = range > 256 ? (int32_t)((const uint16_t *)quantised)[i]
                                : (int32_t)((const uint8_t *)quantised)[i];
        q -= q > how->most ? range : 0; /* negative ones of a signed type */
        numbers[i] = (float)(q - how->zero_points[c]) * how->scales[c];
    }
}

#endif /* AOT_QUANTISED_ENDS_H */
