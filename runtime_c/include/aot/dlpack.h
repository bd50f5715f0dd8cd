/* SPDX-License-Identifier: MIT-0 */
/* Our own declaration of the DLPack 1 binary interface: what arrays of different frameworks have in
 * common. Where the official dlpack.h is needed, include it first: this file then adds nothing. */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#include <stddef.h>
#include <stdint.h>

#include "port.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 1

#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (1UL << 2UL)

typedef struct DLPackVersion {
    uint32_t major;
    uint32_t minor;
} DLPackVersion;

/* The last constant keeps the type 32 bits wide under -fshort-enums. */
typedef enum DLDeviceType {
    kDLCPU = 1,
    kDLCUDA = 2,
    kDLCUDAHost = 3,
    kDLOpenCL = 4,
    kDLVulkan = 7,
    kDLMetal = 8,
    kDLVPI = 9,
    kDLROCM = 10,
    kDLROCMHost = 11,
    kDLExtDev = 12,
    kDLCUDAManaged = 13,
    kDLOneAPI = 14,
    kDLWebGPU = 15,
    kDLHexagon = 16,
    kDLMAIA = 17,
    kDLDeviceTypeWidth_ = 0x7fffffff
} DLDeviceType;

typedef struct DLDevice {
    DLDeviceType device_type;
    int32_t device_id;
} DLDevice;

typedef enum DLDataTypeCode {
    kDLInt = 0,
    kDLUInt = 1,
    kDLFloat = 2,
    kDLOpaqueHandle = 3,
    kDLBfloat = 4,
    kDLComplex = 5,
    kDLBool = 6,
    kDLFloat8_e3m4 = 7,
    kDLFloat8_e4m3 = 8,
    kDLFloat8_e4m3b11fnuz = 9,
    kDLFloat8_e4m3fn = 10,
    kDLFloat8_e4m3fnuz = 11,
    kDLFloat8_e5m2 = 12,
    kDLFloat8_e5m2fnuz = 13,
    kDLFloat8_e8m0fnu = 14,
    kDLFloat6_e2m3fn = 15,
    kDLFloat6_e3m2fn = 16,
    kDLFloat4_e2m1fn = 17
} DLDataTypeCode;

typedef struct DLDataType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} DLDataType;

/* shape and strides count elements; strides NULL means compact and row-major (writers should fill
 * them); the first element is at (char *)data + byte_offset. */
typedef struct DLTensor {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

#ifdef __cplusplus
}
#endif

/* The layouts every host agrees on: 64-bit, 32-bit with 8-byte aligned uint64_t (Arm EABI, RISC-V
 * ilp32), and i386 SysV with 4-byte aligned ones. */
typedef struct aot_dlpack_align {
    char first;
    uint64_t value;
} aot_dlpack_align;
#define AOT_DL_PICK(on64, on32, on386)                                                             \
    (sizeof(void *) == 8 ? (on64) : offsetof(aot_dlpack_align, value) == 8 ? (on32) : (on386))
AOT_STATIC_ASSERT(sizeof(DLDevice) == 8, dl_device_size);
AOT_STATIC_ASSERT(sizeof(DLDataType) == 4, dl_dtype_size);
AOT_STATIC_ASSERT(sizeof(DLTensor) == AOT_DL_PICK(48, 40, 36), dl_tensor_size);
AOT_STATIC_ASSERT(offsetof(DLTensor, device) == sizeof(void *), dl_tensor_device);
AOT_STATIC_ASSERT(offsetof(DLTensor, ndim) == AOT_DL_PICK(16, 12, 12), dl_tensor_ndim);
AOT_STATIC_ASSERT(offsetof(DLTensor, dtype) == AOT_DL_PICK(20, 16, 16), dl_tensor_dtype);
AOT_STATIC_ASSERT(offsetof(DLTensor, shape) == AOT_DL_PICK(24, 20, 20), dl_tensor_shape);
AOT_STATIC_ASSERT(offsetof(DLTensor, strides) == AOT_DL_PICK(32, 24, 24), dl_tensor_strides);
AOT_STATIC_ASSERT(offsetof(DLTensor, byte_offset) == AOT_DL_PICK(40, 32, 28), dl_tensor_offset);
AOT_STATIC_ASSERT(sizeof(DLManagedTensor) == AOT_DL_PICK(64, 48, 44), dl_managed_size);
AOT_STATIC_ASSERT(sizeof(DLManagedTensorVersioned) == AOT_DL_PICK(80, 64, 60), dl_versioned_size);

#endif /* DLPACK_DLPACK_H_ */
