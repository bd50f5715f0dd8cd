# SPDX-License-Identifier: MIT-0
# Linux on another processor: riscv64-linux-gnu-gcc on PATH, or the compiler that CC or
# -DCMAKE_C_COMPILER names. A CC for another machine (its name lacks "riscv64-linux-gnu") is not taken.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR riscv64)
if(NOT CMAKE_C_COMPILER)
  if("$ENV{CC}" MATCHES "riscv64-linux-gnu")
    set(CMAKE_C_COMPILER $ENV{CC})
  else()
    set(CMAKE_C_COMPILER riscv64-linux-gnu-gcc)
  endif()
endif()
set(CMAKE_FIND_ROOT_PATH /usr/riscv64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
