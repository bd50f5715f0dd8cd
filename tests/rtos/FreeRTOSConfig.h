/* SPDX-License-Identifier: MIT-0 */
/* Settings of the programs in this folder, for the kernel beside them and for FreeRTOS itself. */
#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#define configTICK_RATE_HZ 1000
#define configUSE_PREEMPTION 1
#define configUSE_TIME_SLICING 0
#define configMAX_PRIORITIES 5
#define configMINIMAL_STACK_SIZE 128 /* words */
#define configMAX_TASK_NAME_LEN 12
#define configTICK_TYPE_WIDTH_IN_BITS TICK_TYPE_WIDTH_32_BITS

/* Nothing is allocated. */
#define configSUPPORT_STATIC_ALLOCATION 1
#define configSUPPORT_DYNAMIC_ALLOCATION 0
#define configKERNEL_PROVIDED_STATIC_MEMORY 1

#define configUSE_IDLE_HOOK 1
#define configUSE_TICK_HOOK 1
#define configCHECK_FOR_STACK_OVERFLOW 2
#define configUSE_TASK_NOTIFICATIONS 1
#define configUSE_MUTEXES 0
#define configUSE_TIMERS 0
#define INCLUDE_vTaskDelay 1
#define INCLUDE_xTaskDelayUntil 1
#define INCLUDE_xTaskGetCurrentTaskHandle 1
#define INCLUDE_uxTaskGetStackHighWaterMark 1

#ifdef __riscv
#define configCPU_CLOCK_HZ 10000000 /* of mtime in QEMU's machine `virt` */
#define configMTIME_BASE_ADDRESS 0x0200BFF8U
#define configMTIMECMP_BASE_ADDRESS 0x02004000U
#define configISR_STACK_SIZE_WORDS 512
#else
#define configCPU_CLOCK_HZ CLOCK_HZ /* given by the build: SysTick's rate on the target */
#define configKERNEL_INTERRUPT_PRIORITY 0xFFU
#define configMAX_SYSCALL_INTERRUPT_PRIORITY 0x20U
#define configCHECK_HANDLER_INSTALLATION 0
#define vPortSVCHandler SVC_Handler
#define xPortPendSVHandler PendSV_Handler
#define xPortSysTickHandler SysTick_Handler
/* Of a core with Armv8-M: all is secure. */
#define configENABLE_FPU 1
#define configENABLE_MPU 0
#define configENABLE_TRUSTZONE 0
#define configRUN_FREERTOS_SECURE_ONLY 1
#endif

#endif
