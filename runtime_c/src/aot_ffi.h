/* SPDX-License-Identifier: MIT-0 */
/* The parts of two foreign calling conventions a model answers to. Private to the bundle; nothing
 * of TVM is needed to build or to link. */
#ifndef AOT_FFI_H
#define AOT_FFI_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "aot/dlpack.h"
#include "aot/port.h"

/* -- Classic packed functions: an array of 8-byte values and one of type codes ------------------
 */

typedef union aot_tvm_value {
    int64_t v_int64;
    double v_float64;
    void *v_handle;
} aot_tvm_value;
AOT_STATIC_ASSERT(sizeof(aot_tvm_value) == 8, tvm_value_size);

enum { AOT_TVM_HANDLE = 3, AOT_TVM_DLTENSOR = 7, AOT_TVM_NDARRAY = 13 };

/* The tensor of a classic argument, NULL if it is none. An NDArray handle points at its DLTensor.
 */
static inline DLTensor *aot_tvm_tensor(const aot_tvm_value *value, int32_t code) {
    const int known = code == AOT_TVM_HANDLE || code == AOT_TVM_DLTENSOR || code == AOT_TVM_NDARRAY;
    return known ? (DLTensor *)value->v_handle : NULL;
}

/* -- tvm_ffi: tagged values ---------------------------------------------------------------------
 */

typedef struct aot_ffi_any {
    int32_t type_index;
    uint32_t zero_padding;
    union {
        int64_t v_int64;
        double v_float64;
        void *v_ptr;
    } value;
} aot_ffi_any;
AOT_STATIC_ASSERT(sizeof(aot_ffi_any) == 16, ffi_any_size);
AOT_STATIC_ASSERT(offsetof(aot_ffi_any, value) == 8, ffi_any_value);

enum { AOT_FFI_DLTENSOR = 7, AOT_FFI_TENSOR = 70, AOT_FFI_OBJECT_HEADER = 24 };

/* The tensor of a tagged argument, NULL if it is none. */
static inline DLTensor *aot_ffi_tensor(const aot_ffi_any *any) {
    if (any->value.v_ptr == NULL) {
        return NULL;
    }
    if (any->type_index == AOT_FFI_DLTENSOR) {
        return (DLTensor *)any->value.v_ptr;
    }
    if (any->type_index == AOT_FFI_TENSOR) {
        return (DLTensor *)(void *)((char *)any->value.v_ptr + AOT_FFI_OBJECT_HEADER);
    }
    return NULL;
}

/* Text put together without stdio, cut where the buffer ends. */
typedef struct aot_text {
    char data[480];
    size_t size;
} aot_text;

static inline void aot_text_add(aot_text *text, const char *more) {
    const size_t room = sizeof text->data - 1 - text->size, wanted = strlen(more);
    const size_t size = wanted < room ? wanted : room;
    (void)memcpy(text->data + text->size, more, size);
    text->size += size;
    text->data[text->size] = '\0';
}

static inline void aot_text_add_int(aot_text *text, int64_t value) {
    char digits[24];
    size_t at = sizeof digits - 1;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + (int)(rest % 10));
        rest /= 10;
    } while (rest > 0);
    if (value < 0) {
        digits[--at] = '-';
    }
    aot_text_add(text, digits + at);
}

#endif /* AOT_FFI_H */
