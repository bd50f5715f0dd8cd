# SPDX-License-Identifier: MIT-0
# Linux on RISC-V with vectors: clang-16 on PATH, or the clang that CC or -DCMAKE_C_COMPILER names.
# It takes the C library and the linker of riscv64-linux-gnu-gcc. A CC of another name than
# clang-16 is not taken: what it names is for this machine's own programs.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR riscv64)
if(NOT CMAKE_C_COMPILER)
  if("$ENV{CC}" MATCHES "clang-16")
    set(CMAKE_C_COMPILER $ENV{CC})
  else()
    set(CMAKE_C_COMPILER clang-16)
  endif()
endif()
set(CMAKE_C_COMPILER_TARGET riscv64-linux-gnu)
find_program(AOT_RISCV64_LD riscv64-linux-gnu-ld)
if(NOT AOT_RISCV64_LD AND NOT CMAKE_SYSROOT)
  message(FATAL_ERROR "clang has no C library and no linker for riscv64-linux-gnu: "
    "apt-get install --no-install-recommends gcc-riscv64-linux-gnu libc6-dev-riscv64-cross")
endif()
set(CMAKE_FIND_ROOT_PATH /usr/riscv64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
