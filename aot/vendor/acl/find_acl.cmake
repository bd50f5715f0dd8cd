# SPDX-License-Identifier: MIT-0
# Arm Compute Library as the target ArmCompute::ArmCompute, if it is found: under acl_ROOT (a variable
# of CMake or of the environment) first, then where CMake looks. It is told by a header that version
# 20.08 has and that later ones moved; the calls of it are C++.
if(NOT TARGET ArmCompute::ArmCompute)
  set(acl_places ${acl_ROOT} $ENV{acl_ROOT})
  set(acl_folders include usr/include usr/include/aarch64-linux-gnu include/aarch64-linux-gnu)
  find_path(ACL_INCLUDE_DIR arm_compute/runtime/NEON/NEFunctions.h HINTS ${acl_places}
    PATH_SUFFIXES ${acl_folders} NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
  find_path(ACL_INCLUDE_DIR arm_compute/runtime/NEON/NEFunctions.h PATH_SUFFIXES aarch64-linux-gnu)
  foreach(acl_library arm_compute arm_compute_core)
    string(TOUPPER "${acl_library}_LIBRARY" acl_name)
    find_library(${acl_name} NAMES ${acl_library} HINTS ${acl_places}
      PATH_SUFFIXES lib lib64 usr/lib usr/lib/aarch64-linux-gnu lib/aarch64-linux-gnu
      NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
    find_library(${acl_name} NAMES ${acl_library})
    mark_as_advanced(${acl_name})
  endforeach()
  mark_as_advanced(ACL_INCLUDE_DIR)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(aot_vendor_why "its library is for aarch64, and this is ${CMAKE_SYSTEM_PROCESSOR}.")
  elseif(ACL_INCLUDE_DIR AND ARM_COMPUTE_LIBRARY AND ARM_COMPUTE_CORE_LIBRARY)
    if(EXISTS "${ACL_INCLUDE_DIR}/arm_compute/core/CPP/ICPPSimpleKernel.h")
      if(NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX}) # the C compiler's sibling, not this machine's
        string(REGEX REPLACE "gcc([^/]*)$" "g++\\1" CMAKE_CXX_COMPILER "${CMAKE_C_COMPILER}")
        string(REGEX REPLACE "clang([^/]*)$" "clang++\\1" CMAKE_CXX_COMPILER "${CMAKE_CXX_COMPILER}")
      endif()
      enable_language(CXX)
      set(aot_vendor_symbols "${ARM_COMPUTE_LIBRARY}|NEElementwiseMin"
        "${ARM_COMPUTE_LIBRARY}|NEDepthwiseConvolutionLayer")
      add_library(ArmCompute::ArmCompute INTERFACE IMPORTED GLOBAL)
      set_target_properties(ArmCompute::ArmCompute PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${ACL_INCLUDE_DIR};${ACL_INCLUDE_DIR}/.."
        INTERFACE_COMPILE_FEATURES cxx_std_14
        INTERFACE_LINK_LIBRARIES "${ARM_COMPUTE_LIBRARY};${ARM_COMPUTE_CORE_LIBRARY};stdc++")
    else()
      set(aot_vendor_why "the library in ${ACL_INCLUDE_DIR} is no Arm Compute Library 20.08.")
    endif()
  endif()
endif()
