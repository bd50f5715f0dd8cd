/* SPDX-License-Identifier: MIT-0 */
/* The instructions and machines of AX1: header.py writes it from isa.py, config.py. */
/* clang-format off */
#ifndef AX1_ISA_H
#define AX1_ISA_H

#include <stdint.h>

#define AX1_VERSION 1
#define AX1_BYTES 16
#define AX1_REGISTERS 8
#define AX1_VIEWS 16
#define AX1_KERNELS 16
#define AX1_STRIDES 16
#define AX1_VSETS 8
#define AX1_MAX_LOOPS 4
#define AX1_MAX_TOKENS 15

#define AX1_UNIT_LD 0
#define AX1_UNIT_EX 1
#define AX1_UNIT_VX 2
#define AX1_UNIT_ST 3
#define AX1_UNIT_FE 4

#define AX1_DTYPE_I8 0
#define AX1_DTYPE_F32 1
#define AX1_DTYPE_U8 2

#define AX1_MEM_SPM 0
#define AX1_MEM_WGT 1
#define AX1_MEM_PRM 2
#define AX1_MEM_LUT 3

#define AX1_ALU_COPY 0
#define AX1_ALU_FILL 1
#define AX1_ALU_ADD 2
#define AX1_ALU_MUL 3
#define AX1_ALU_MAX 4
#define AX1_ALU_MIN 5
#define AX1_ALU_CLIP 6
#define AX1_ALU_LUT 7
#define AX1_ALU_SOFTMAX 8

#define AX1_RQ_FLOAT 0
#define AX1_RQ_TFLITE 2
#define AX1_RQ_DIVIDE 3

#define AX1_KIND_LINEAR 0
#define AX1_KIND_EVEN 1
#define AX1_KIND_TFLITE 2

#define AX1_FAULT_NONE 0
#define AX1_FAULT_OPCODE 1
#define AX1_FAULT_RESERVED 2
#define AX1_FAULT_REGION 3
#define AX1_FAULT_READ_ONLY 4
#define AX1_FAULT_LOCAL 5
#define AX1_FAULT_TOKENS 6
#define AX1_FAULT_DEADLOCK 7
#define AX1_FAULT_STREAM 8
#define AX1_FAULT_LOOPS 9
#define AX1_FAULT_LEFT 10
#define AX1_FAULT_FIELD 11
#define AX1_FAULT_PACKED 12
#define AX1_FAULT_ABORTED 13

/* Machines. */
#ifndef AX1_MACS
#define AX1_MACS 256
#endif
#if AX1_MACS == 64
#define AX1_K 8
#define AX1_M 8
#define AX1_SPM 32768
#define AX1_WGT 8192
#define AX1_ACC 4096
#define AX1_PRM 1024
#define AX1_SRAM_RATE 4
#define AX1_LUT 1024
#define AX1_FLASH_RATE 1
#define AX1_SRAM_LATENCY 32
#define AX1_FLASH_LATENCY 64
#define AX1_PREFETCH 4
#define AX1_QUEUE 8
#define AX1_PORT 16
#define AX1_SEGMENTS 4
#define AX1_SCATTER 4
#define AX1_ROW_GAP 2
#define AX1_UNPACK_RATE 2
#define AX1_ZERO_BLOCK 1
#define AX1_VX_FILL 8
#define AX1_FLOAT_FILL 4
#define AX1_DW_FILL 32
#define AX1_DW_TAPS 16
#define AX1_SOFTMAX_FILL 64
#elif AX1_MACS == 256
#define AX1_K 16
#define AX1_M 16
#define AX1_SPM 65536
#define AX1_WGT 32768
#define AX1_ACC 16384
#define AX1_PRM 2048
#define AX1_SRAM_RATE 8
#define AX1_LUT 1024
#define AX1_FLASH_RATE 1
#define AX1_SRAM_LATENCY 32
#define AX1_FLASH_LATENCY 64
#define AX1_PREFETCH 4
#define AX1_QUEUE 8
#define AX1_PORT 16
#define AX1_SEGMENTS 4
#define AX1_SCATTER 4
#define AX1_ROW_GAP 2
#define AX1_UNPACK_RATE 2
#define AX1_ZERO_BLOCK 1
#define AX1_VX_FILL 8
#define AX1_FLOAT_FILL 4
#define AX1_DW_FILL 32
#define AX1_DW_TAPS 16
#define AX1_SOFTMAX_FILL 64
#elif AX1_MACS == 512
#define AX1_K 32
#define AX1_M 16
#define AX1_SPM 131072
#define AX1_WGT 65536
#define AX1_ACC 16384
#define AX1_PRM 4096
#define AX1_SRAM_RATE 16
#define AX1_LUT 1024
#define AX1_FLASH_RATE 1
#define AX1_SRAM_LATENCY 32
#define AX1_FLASH_LATENCY 64
#define AX1_PREFETCH 4
#define AX1_QUEUE 8
#define AX1_PORT 16
#define AX1_SEGMENTS 4
#define AX1_SCATTER 4
#define AX1_ROW_GAP 2
#define AX1_UNPACK_RATE 2
#define AX1_ZERO_BLOCK 1
#define AX1_VX_FILL 8
#define AX1_FLOAT_FILL 4
#define AX1_DW_FILL 32
#define AX1_DW_TAPS 16
#define AX1_SOFTMAX_FILL 64
#else
#error "AX1_MACS is 64, 256 or 512"
#endif

/* What all instructions have in word 0. */
#define AX1_OP(w) ((int32_t)(((w)[0]) & 0x3FU))
#define AX1_DTYPE(w) ((int32_t)(((w)[0] >> 6) & 0x3U))
#define AX1_WAIT(w) ((int32_t)(((w)[0] >> 8) & 0xFU))
#define AX1_SIGNAL(w) ((int32_t)(((w)[0] >> 12) & 0xFU))
#define AX1_R1(w) ((int32_t)(((w)[0] >> 16) & 0x7U))
#define AX1_R2(w) ((int32_t)(((w)[0] >> 19) & 0x7U))
#define AX1_R3(w) ((int32_t)(((w)[0] >> 22) & 0x7U))

/* HALT */
#define AX1_OP_HALT 0x00
#define AX1_HALT_STATUS(w) ((int32_t)(((w)[1]) & 0xFFFFU))

/* FENCE */
#define AX1_OP_FENCE 0x01
#define AX1_FENCE_UNITS(w) ((int32_t)(((w)[1]) & 0xFU))

/* LOOP */
#define AX1_OP_LOOP 0x02
#define AX1_LOOP_COUNT(w) ((int32_t)(((w)[1]) & 0xFFFFU) + 1)

/* ENDL */
#define AX1_OP_ENDL 0x03
#define AX1_ENDL_S1(w) ((int32_t)(w)[1])
#define AX1_ENDL_S2(w) ((int32_t)(w)[2])
#define AX1_ENDL_S3(w) ((int32_t)(w)[3])

/* SETA */
#define AX1_OP_SETA 0x04
#define AX1_SETA_V1(w) ((int32_t)(w)[1])
#define AX1_SETA_V2(w) ((int32_t)(w)[2])
#define AX1_SETA_V3(w) ((int32_t)(w)[3])

/* VIEW */
#define AX1_OP_VIEW 0x05
#define AX1_VIEW_SLOT(w) ((int32_t)(((w)[0] >> 25) & 0xFU))
#define AX1_VIEW_BASE(w) ((int32_t)(((w)[1] >> 12) & 0xFFFFFU))
#define AX1_VIEW_PIXEL(w) ((int32_t)(((w)[1]) & 0xFFFU))
#define AX1_VIEW_ROW(w) ((int32_t)(((w)[2] >> 12) & 0xFFFFFU))
#define AX1_VIEW_RING(w) ((int32_t)(((w)[2]) & 0xFFFU))
#define AX1_VIEW_HEIGHT(w) ((int32_t)(((w)[3] >> 20) & 0xFFFU) + 1)
#define AX1_VIEW_WIDTH(w) ((int32_t)(((w)[3] >> 8) & 0xFFFU) + 1)
#define AX1_VIEW_PAD(w) ((int32_t)((w)[3] << 24) >> 24)

/* KERN */
#define AX1_OP_KERN 0x06
#define AX1_KERN_SLOT(w) ((int32_t)(((w)[0] >> 25) & 0xFU))
#define AX1_KERN_KH(w) ((int32_t)(((w)[1] >> 24) & 0xFFU) + 1)
#define AX1_KERN_KW(w) ((int32_t)(((w)[1] >> 16) & 0xFFU) + 1)
#define AX1_KERN_SH(w) ((int32_t)(((w)[1] >> 12) & 0xFU) + 1)
#define AX1_KERN_SW(w) ((int32_t)(((w)[1] >> 8) & 0xFU) + 1)
#define AX1_KERN_DH(w) ((int32_t)(((w)[1] >> 4) & 0xFU) + 1)
#define AX1_KERN_DW(w) ((int32_t)(((w)[1]) & 0xFU) + 1)
#define AX1_KERN_CI(w) ((int32_t)(((w)[2]) & 0xFFFU) + 1)

/* STRD */
#define AX1_OP_STRD 0x07
#define AX1_STRD_SLOT(w) ((int32_t)(((w)[0] >> 25) & 0xFU))
#define AX1_STRD_ROW(w) ((int32_t)(w)[1])
#define AX1_STRD_PIXEL(w) ((int32_t)(w)[2])
#define AX1_STRD_CHANNEL(w) ((int32_t)(w)[3])

/* VSET0 */
#define AX1_OP_VSET0 0x08
#define AX1_VSET0_SLOT(w) ((int32_t)(((w)[0] >> 25) & 0x7U))
#define AX1_VSET0_ZERO(w) ((int32_t)((w)[1] << 24) >> 24)
#define AX1_VSET0_LO(w) ((int32_t)((w)[1] << 16) >> 24)
#define AX1_VSET0_HI(w) ((int32_t)((w)[1] << 8) >> 24)
#define AX1_VSET0_RQ(w) ((int32_t)(((w)[1] >> 24) & 0x3U))
#define AX1_VSET0_MULT(w) ((int32_t)(w)[2])
#define AX1_VSET0_SHIFT(w) ((int32_t)((w)[3] << 24) >> 24)
#define AX1_VSET0_ZA(w) ((int32_t)((w)[3] << 16) >> 24)
#define AX1_VSET0_ZB(w) ((int32_t)((w)[3] << 8) >> 24)

/* VSET1 */
#define AX1_OP_VSET1 0x09
#define AX1_VSET1_SLOT(w) ((int32_t)(((w)[0] >> 25) & 0x7U))
#define AX1_VSET1_MA(w) ((int32_t)(w)[1])
#define AX1_VSET1_MB(w) ((int32_t)(w)[2])
#define AX1_VSET1_MY(w) ((int32_t)(w)[3])

/* VSET2 */
#define AX1_OP_VSET2 0x0A
#define AX1_VSET2_SLOT(w) ((int32_t)(((w)[0] >> 25) & 0x7U))
#define AX1_VSET2_KIND(w) ((int32_t)(((w)[0] >> 28) & 0x3U))
#define AX1_VSET2_MINUS(w) ((int32_t)(((w)[0] >> 30) & 0x1U))
#define AX1_VSET2_SA(w) ((int32_t)((w)[1] << 24) >> 24)
#define AX1_VSET2_SB(w) ((int32_t)((w)[1] << 16) >> 24)
#define AX1_VSET2_SY(w) ((int32_t)((w)[1] << 8) >> 24)
#define AX1_VSET2_ZA(w) ((int32_t)((w)[2] << 24) >> 24)
#define AX1_VSET2_ZB(w) ((int32_t)((w)[2] << 16) >> 24)
#define AX1_VSET2_ZY(w) ((int32_t)((w)[2] << 8) >> 24)
#define AX1_VSET2_LO(w) ((int32_t)((w)[3] << 24) >> 24)
#define AX1_VSET2_HI(w) ((int32_t)((w)[3] << 16) >> 24)

/* LD */
#define AX1_OP_LD 0x10
#define AX1_LD_REGION(w) ((int32_t)(((w)[1] >> 29) & 0x7U))
#define AX1_LD_OFFSET(w) ((int32_t)(((w)[1]) & 0x1FFFFFFFU))
#define AX1_LD_Y(w) ((int32_t)(((w)[2] >> 20) & 0xFFFU) - 2048)
#define AX1_LD_X(w) ((int32_t)(((w)[2] >> 8) & 0xFFFU) - 2048)
#define AX1_LD_VIEW(w) ((int32_t)(((w)[2] >> 4) & 0xFU))
#define AX1_LD_STRIDES(w) ((int32_t)(((w)[2]) & 0xFU))
#define AX1_LD_ROWS(w) ((int32_t)(((w)[3] >> 22) & 0x3FFU) + 1)
#define AX1_LD_COLS(w) ((int32_t)(((w)[3] >> 12) & 0x3FFU) + 1)
#define AX1_LD_CH(w) ((int32_t)(((w)[3]) & 0xFFFU) + 1)

/* ST */
#define AX1_OP_ST 0x11
#define AX1_ST_REGION(w) ((int32_t)(((w)[1] >> 29) & 0x7U))
#define AX1_ST_OFFSET(w) ((int32_t)(((w)[1]) & 0x1FFFFFFFU))
#define AX1_ST_Y(w) ((int32_t)(((w)[2] >> 20) & 0xFFFU) - 2048)
#define AX1_ST_X(w) ((int32_t)(((w)[2] >> 8) & 0xFFFU) - 2048)
#define AX1_ST_VIEW(w) ((int32_t)(((w)[2] >> 4) & 0xFU))
#define AX1_ST_STRIDES(w) ((int32_t)(((w)[2]) & 0xFU))
#define AX1_ST_ROWS(w) ((int32_t)(((w)[3] >> 22) & 0x3FFU) + 1)
#define AX1_ST_COLS(w) ((int32_t)(((w)[3] >> 12) & 0x3FFU) + 1)
#define AX1_ST_CH(w) ((int32_t)(((w)[3]) & 0xFFFU) + 1)

/* LDL */
#define AX1_OP_LDL 0x12
#define AX1_LDL_REGION(w) ((int32_t)(((w)[1] >> 29) & 0x7U))
#define AX1_LDL_OFFSET(w) ((int32_t)(((w)[1]) & 0x1FFFFFFFU))
#define AX1_LDL_MEM(w) ((int32_t)(((w)[2] >> 29) & 0x7U))
#define AX1_LDL_TO(w) ((int32_t)(((w)[2] >> 12) & 0x1FFFFU))
#define AX1_LDL_BYTES(w) ((int32_t)(((w)[3] >> 16) & 0xFFFFU) + 1)
#define AX1_LDL_PACKED(w) ((int32_t)(((w)[3]) & 0xFFFFU))
#define AX1_LDL_RECORD(w) ((int32_t)(((w)[0] >> 25) & 0x1U))

/* MM */
#define AX1_OP_MM 0x18
#define AX1_MM_Y(w) ((int32_t)(((w)[1] >> 20) & 0xFFFU) - 2048)
#define AX1_MM_X(w) ((int32_t)(((w)[1] >> 8) & 0xFFFU) - 2048)
#define AX1_MM_VIEW(w) ((int32_t)(((w)[1] >> 4) & 0xFU))
#define AX1_MM_KERN(w) ((int32_t)(((w)[1]) & 0xFU))
#define AX1_MM_WGT(w) ((int32_t)(((w)[2] >> 20) & 0xFFFU))
#define AX1_MM_ACC(w) ((int32_t)(((w)[2] >> 11) & 0x1FFU))
#define AX1_MM_TILES(w) ((int32_t)(((w)[2] >> 6) & 0x1FU) + 1)
#define AX1_MM_ROWS(w) ((int32_t)(((w)[3] >> 24) & 0xFFU) + 1)
#define AX1_MM_COLS(w) ((int32_t)(((w)[3] >> 16) & 0xFFU) + 1)
#define AX1_MM_AT(w) ((int32_t)(((w)[3]) & 0xFFFFU))
#define AX1_MM_ADD(w) ((int32_t)(((w)[0] >> 25) & 0x1U))

/* DW */
#define AX1_OP_DW 0x19
#define AX1_DW_Y(w) ((int32_t)(((w)[1] >> 20) & 0xFFFU) - 2048)
#define AX1_DW_X(w) ((int32_t)(((w)[1] >> 8) & 0xFFFU) - 2048)
#define AX1_DW_VIEW(w) ((int32_t)(((w)[1] >> 4) & 0xFU))
#define AX1_DW_KERN(w) ((int32_t)(((w)[1]) & 0xFU))
#define AX1_DW_WGT(w) ((int32_t)(((w)[2] >> 20) & 0xFFFU))
#define AX1_DW_ACC(w) ((int32_t)(((w)[2] >> 11) & 0x1FFU))
#define AX1_DW_TILES(w) ((int32_t)(((w)[2] >> 6) & 0x1FU) + 1)
#define AX1_DW_ROWS(w) ((int32_t)(((w)[3] >> 24) & 0xFFU) + 1)
#define AX1_DW_COLS(w) ((int32_t)(((w)[3] >> 16) & 0xFFU) + 1)
#define AX1_DW_AT(w) ((int32_t)(((w)[3]) & 0xFFFFU))
#define AX1_DW_ADD(w) ((int32_t)(((w)[0] >> 25) & 0x1U))

/* DRAIN */
#define AX1_OP_DRAIN 0x20
#define AX1_DRAIN_Y(w) ((int32_t)(((w)[1] >> 20) & 0xFFFU) - 2048)
#define AX1_DRAIN_X(w) ((int32_t)(((w)[1] >> 8) & 0xFFFU) - 2048)
#define AX1_DRAIN_VIEW(w) ((int32_t)(((w)[1] >> 4) & 0xFU))
#define AX1_DRAIN_RES_VIEW(w) ((int32_t)(((w)[1]) & 0xFU))
#define AX1_DRAIN_ACC(w) ((int32_t)(((w)[2] >> 23) & 0x1FFU))
#define AX1_DRAIN_PRM(w) ((int32_t)(((w)[2] >> 15) & 0xFFU))
#define AX1_DRAIN_AT(w) ((int32_t)(((w)[2] >> 3) & 0xFFFU))
#define AX1_DRAIN_RES(w) ((int32_t)(((w)[2]) & 0x1U))
#define AX1_DRAIN_ROWS(w) ((int32_t)(((w)[3] >> 24) & 0xFFU) + 1)
#define AX1_DRAIN_COLS(w) ((int32_t)(((w)[3] >> 16) & 0xFFU) + 1)
#define AX1_DRAIN_CH(w) ((int32_t)(((w)[3] >> 4) & 0xFFFU) + 1)
#define AX1_DRAIN_VSET(w) ((int32_t)(((w)[0] >> 25) & 0x7U))
#define AX1_DRAIN_LUT(w) ((int32_t)(((w)[0] >> 28) & 0x7U))

/* ALU */
#define AX1_OP_ALU 0x21
#define AX1_ALU_Y(w) ((int32_t)(((w)[1] >> 20) & 0xFFFU) - 2048)
#define AX1_ALU_X(w) ((int32_t)(((w)[1] >> 8) & 0xFFFU) - 2048)
#define AX1_ALU_VIEW(w) ((int32_t)(((w)[1] >> 4) & 0xFU))
#define AX1_ALU_B_VIEW(w) ((int32_t)(((w)[1]) & 0xFU))
#define AX1_ALU_FROM_Y(w) ((int32_t)(((w)[2] >> 20) & 0xFFFU) - 2048)
#define AX1_ALU_FROM_X(w) ((int32_t)(((w)[2] >> 8) & 0xFFFU) - 2048)
#define AX1_ALU_FROM_VIEW(w) ((int32_t)(((w)[2] >> 4) & 0xFU))
#define AX1_ALU_OP(w) ((int32_t)(((w)[2]) & 0xFU))
#define AX1_ALU_ROWS(w) ((int32_t)(((w)[3] >> 24) & 0xFFU) + 1)
#define AX1_ALU_COLS(w) ((int32_t)(((w)[3] >> 16) & 0xFFU) + 1)
#define AX1_ALU_CH(w) ((int32_t)(((w)[3] >> 4) & 0xFFFU) + 1)
#define AX1_ALU_VSET(w) ((int32_t)(((w)[0] >> 25) & 0x7U))
#define AX1_ALU_TABLE(w) ((int32_t)(((w)[0] >> 28) & 0x3U))

/* POOL */
#define AX1_OP_POOL 0x22
#define AX1_POOL_Y(w) ((int32_t)(((w)[1] >> 20) & 0xFFFU) - 2048)
#define AX1_POOL_X(w) ((int32_t)(((w)[1] >> 8) & 0xFFFU) - 2048)
#define AX1_POOL_VIEW(w) ((int32_t)(((w)[1] >> 4) & 0xFU))
#define AX1_POOL_KERN(w) ((int32_t)(((w)[1]) & 0xFU))
#define AX1_POOL_FROM_Y(w) ((int32_t)(((w)[2] >> 20) & 0xFFFU) - 2048)
#define AX1_POOL_FROM_X(w) ((int32_t)(((w)[2] >> 8) & 0xFFFU) - 2048)
#define AX1_POOL_FROM_VIEW(w) ((int32_t)(((w)[2] >> 4) & 0xFU))
#define AX1_POOL_OP(w) ((int32_t)(((w)[2]) & 0x1U))
#define AX1_POOL_ROWS(w) ((int32_t)(((w)[3] >> 24) & 0xFFU) + 1)
#define AX1_POOL_COLS(w) ((int32_t)(((w)[3] >> 16) & 0xFFU) + 1)
#define AX1_POOL_CH(w) ((int32_t)(((w)[3] >> 4) & 0xFFFU) + 1)
#define AX1_POOL_VSET(w) ((int32_t)(((w)[0] >> 25) & 0x7U))

/* opcode, unit, data types (mask), bits of the four words that are not reserved */
#define AX1_TABLE(ROW) \
    ROW(0x00, AX1_UNIT_FE, 1, 0x0000003FU, 0x0000FFFFU, 0x00000000U, 0x00000000U) \
    ROW(0x01, AX1_UNIT_FE, 1, 0x0000003FU, 0x0000000FU, 0x00000000U, 0x00000000U) \
    ROW(0x02, AX1_UNIT_FE, 1, 0x0000003FU, 0x0000FFFFU, 0x00000000U, 0x00000000U) \
    ROW(0x03, AX1_UNIT_FE, 1, 0x01FF003FU, 0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU) \
    ROW(0x04, AX1_UNIT_FE, 1, 0x01FF003FU, 0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU) \
    ROW(0x05, AX1_UNIT_FE, 1, 0x1E00003FU, 0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU) \
    ROW(0x06, AX1_UNIT_FE, 1, 0x1E00003FU, 0xFFFFFFFFU, 0x00000FFFU, 0x00000000U) \
    ROW(0x07, AX1_UNIT_FE, 1, 0x1E00003FU, 0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU) \
    ROW(0x08, AX1_UNIT_FE, 1, 0x0E00003FU, 0x03FFFFFFU, 0xFFFFFFFFU, 0x00FFFFFFU) \
    ROW(0x09, AX1_UNIT_FE, 1, 0x0E00003FU, 0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU) \
    ROW(0x0A, AX1_UNIT_FE, 1, 0x7E00003FU, 0x00FFFFFFU, 0x00FFFFFFU, 0x0000FFFFU) \
    ROW(0x10, AX1_UNIT_LD, 7, 0x01FFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU) \
    ROW(0x11, AX1_UNIT_ST, 7, 0x01FFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU) \
    ROW(0x12, AX1_UNIT_LD, 1, 0x03FFFFFFU, 0xFFFFFFFFU, 0xFFFFF000U, 0xFFFFFFFFU) \
    ROW(0x18, AX1_UNIT_EX, 3, 0x03FFFFFFU, 0xFFFFFFFFU, 0xFFFFFFC0U, 0xFFFFFFFFU) \
    ROW(0x19, AX1_UNIT_EX, 3, 0x03FFFFFFU, 0xFFFFFFFFU, 0xFFFFFFC0U, 0xFFFFFFFFU) \
    ROW(0x20, AX1_UNIT_VX, 3, 0x7FFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFF9U, 0xFFFFFFF0U) \
    ROW(0x21, AX1_UNIT_VX, 3, 0x3FFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFF0U) \
    ROW(0x22, AX1_UNIT_VX, 3, 0x0FFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFF1U, 0xFFFFFFF0U)

#endif /* AX1_ISA_H */
