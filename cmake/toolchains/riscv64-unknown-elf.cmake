# SPDX-License-Identifier: MIT-0
# Boards without an operating system: riscv64-unknown-elf-gcc on PATH, or the compiler that CC or
# -DCMAKE_C_COMPILER names. A CC for another machine (its name lacks "riscv64-unknown-elf") is not taken.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR riscv)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # there is no start-up code to link yet
if(NOT CMAKE_C_COMPILER)
  if("$ENV{CC}" MATCHES "riscv64-unknown-elf")
    set(CMAKE_C_COMPILER $ENV{CC})
  else()
    set(CMAKE_C_COMPILER riscv64-unknown-elf-gcc)
  endif()
endif()
