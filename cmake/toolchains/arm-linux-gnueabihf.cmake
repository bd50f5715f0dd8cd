# SPDX-License-Identifier: MIT-0
# Linux on another processor: arm-linux-gnueabihf-gcc on PATH, or the compiler that CC or
# -DCMAKE_C_COMPILER names. A CC for another machine (its name lacks "arm-linux-gnueabihf") is not taken.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR armv7-a)
if(NOT CMAKE_C_COMPILER)
  if("$ENV{CC}" MATCHES "arm-linux-gnueabihf")
    set(CMAKE_C_COMPILER $ENV{CC})
  else()
    set(CMAKE_C_COMPILER arm-linux-gnueabihf-gcc)
  endif()
endif()
set(CMAKE_FIND_ROOT_PATH /usr/arm-linux-gnueabihf)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
