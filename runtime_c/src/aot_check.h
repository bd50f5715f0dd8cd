/* SPDX-License-Identifier: MIT-0 */
/* Checks of the caller's tensors, shared by all entries of a model. Private to the bundle. */
#ifndef AOT_CHECK_H
#define AOT_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "aot/aot.h"
#include "aot/dlpack.h"

/* What a model expects of one input or output. No pointers: the tables stay read-only even where
 * code is loaded at any address. */
typedef struct aot_spec {
    int32_t extents; /* index of the first of ndim extents in the model's table */
    int32_t ndim;
    uint8_t code;   /* DLPack's type code */
    uint8_t bits;   /* of one element */
    uint16_t align; /* bytes of one element */
    size_t bytes;   /* of the whole tensor */
} aot_spec;

/* Strides of a tensor that is compact and row-major; those of axes of extent 1 do not matter. */
static inline int aot_is_compact(const DLTensor *t) {
    int64_t expected = 1;
    int32_t i;
    if (t->strides == NULL) {
        return 1;
    }
    for (i = t->ndim - 1; i >= 0; --i) {
        if (t->shape[i] == 1) {
            continue;
        }
        if (t->strides[i] != expected) {
            return 0;
        }
        expected *= t->shape[i];
    }
    return 1;
}

/* Whether the caller's tensor has the axes that `spec` says, and an array of their extents. */
static inline aot_status aot_check_axes(const DLTensor *t, const aot_spec *spec) {
    if (t == NULL) {
        return AOT_NULL;
    }
    if (t->ndim != spec->ndim) {
        return AOT_BAD_NDIM;
    }
    return t->ndim > 0 && t->shape == NULL ? AOT_NULL : AOT_OK;
}

/* Everything but the shape. */
static inline aot_status aot_check_rest(const DLTensor *t, const aot_spec *spec) {
    uint64_t room; /* bytes from the data to the end of the address space */
    if (t->dtype.code != spec->code || t->dtype.bits != spec->bits || t->dtype.lanes != 1) {
        return AOT_BAD_DTYPE;
    }
    if ((int)t->device.device_type != (int)kDLCPU || t->device.device_id != 0) {
        return AOT_BAD_DEVICE;
    }
    if (spec->bytes > 0) {
        if (!aot_is_compact(t)) {
            return AOT_BAD_STRIDES;
        }
        if (t->data == NULL) {
            return AOT_NULL;
        }
        room = (uint64_t)(UINTPTR_MAX - (uintptr_t)t->data);
        if (t->byte_offset > (uint64_t)PTRDIFF_MAX || t->byte_offset > room ||
            spec->bytes > room - t->byte_offset) {
            return AOT_BAD_ALIGN;
        }
    }
    return AOT_OK;
}

/* Whether `t` is what `spec` says; nothing it points to but shape and strides is read. */
static inline aot_status aot_check_tensor(const DLTensor *t, const aot_spec *spec,
                                          const int64_t *extents) {
    const aot_status status = aot_check_axes(t, spec);
    int32_t i;
    if (status != AOT_OK) {
        return status;
    }
    for (i = 0; i < t->ndim; ++i) {
        if (t->shape[i] != extents[spec->extents + i]) {
            return AOT_BAD_SHAPE;
        }
    }
    return aot_check_rest(t, spec);
}

/* -- Dimensions that a run says. `dynamic` has, for every entry of the model's table `extents`, 0
 * or one more than the number of its dimension, of which `extents` then is the upper bound and
 * `least` the lower one; `said` are the dimensions' extents, negative where nothing is said yet. */

/* Whether entry `at` may be `extent`, which is noted. */
static inline int aot_extent_fits(int64_t extent, int32_t at, const int64_t *extents,
                                  const uint8_t *dynamic, const int64_t *least, int64_t *said) {
    const int k = (int)dynamic[at] - 1;
    if (k < 0) {
        return extent == extents[at];
    }
    if (extent < least[k] || extent > extents[at] || (said[k] >= 0 && said[k] != extent)) {
        return 0;
    }
    said[k] = extent;
    return 1;
}

/* aot_check_tensor for inputs that may have such dimensions. */
static inline aot_status aot_check_dynamic(const DLTensor *t, const aot_spec *spec,
                                           const int64_t *extents, const uint8_t *dynamic,
                                           const int64_t *least, int64_t *said) {
    const aot_status status = aot_check_axes(t, spec);
    int32_t i;
    if (status != AOT_OK) {
        return status;
    }
    for (i = 0; i < t->ndim; ++i) {
        if (!aot_extent_fits(t->shape[i], spec->extents + i, extents, dynamic, least, said)) {
            return AOT_BAD_SHAPE;
        }
    }
    return aot_check_rest(t, spec);
}

/* Bytes of a tensor whose dimensions are as `said` (NULL: the largest there can be). Elements that
 * share bytes have no such dimension. */
static inline size_t aot_dynamic_bytes(const aot_spec *spec, const int64_t *extents,
                                       const uint8_t *dynamic, const int64_t *said) {
    size_t bytes = spec->bytes;
    int32_t i;
    for (i = 0; said != NULL && i < spec->ndim; ++i) {
        const int32_t at = spec->extents + i;
        const int k = (int)dynamic[at] - 1;
        if (k >= 0 && said[k] >= 0 && extents[at] > 0) {
            bytes = bytes / (size_t)extents[at] * (size_t)said[k];
        }
    }
    return bytes;
}

/* Address of the first element of a checked tensor. */
static inline void *aot_tensor_data(const DLTensor *t, const aot_spec *spec) {
    return spec->bytes > 0 ? (void *)((unsigned char *)t->data + (size_t)t->byte_offset) : t->data;
}

/* Whether the elements at `p` can be accessed. */
static inline aot_status aot_check_pointer(const void *p, const aot_spec *spec) {
    if (spec->bytes == 0) {
        return AOT_OK;
    }
    if (p == NULL) {
        return AOT_NULL;
    }
    return (uintptr_t)p % spec->align == 0 ? AOT_OK : AOT_BAD_ALIGN;
}

/* Whether na bytes at a and nb bytes at b have one in common. */
static inline int aot_overlap(const void *a, size_t na, const void *b, size_t nb) {
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return na > 0 && nb > 0 && (x < y ? y - x < na : x - y < nb);
}

#endif /* AOT_CHECK_H */
