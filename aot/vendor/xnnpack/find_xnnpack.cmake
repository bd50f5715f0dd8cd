# SPDX-License-Identifier: MIT-0
# XNNPACK as the target XNNPACK::XNNPACK, if it is found: under xnnpack_ROOT (a variable of CMake or
# of the environment) first, then where CMake looks. The library has no version number: it is told by
# what its header declares, and that the library has it too.
if(NOT TARGET XNNPACK::XNNPACK)
  set(xnnpack_places ${xnnpack_ROOT} $ENV{xnnpack_ROOT})
  set(xnnpack_folders lib lib64 usr/lib "lib/${CMAKE_LIBRARY_ARCHITECTURE}"
    "usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}" "usr/lib/${CMAKE_SYSTEM_PROCESSOR}-linux-gnu")
  foreach(xnnpack_header xnnpack pthreadpool)
    string(TOUPPER ${xnnpack_header} xnnpack_name)
    find_path(${xnnpack_name}_INCLUDE_DIR ${xnnpack_header}.h HINTS ${xnnpack_places}
      PATH_SUFFIXES include usr/include NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
    find_path(${xnnpack_name}_INCLUDE_DIR ${xnnpack_header}.h)
    mark_as_advanced(${xnnpack_name}_INCLUDE_DIR)
  endforeach()
  # libcpuinfo has no development files on Debian and need not be there: the library names it.
  foreach(xnnpack_library XNNPACK pthreadpool cpuinfo)
    string(TOUPPER "${xnnpack_library}_LIBRARY" xnnpack_name)
    set(xnnpack_names ${xnnpack_library} lib${xnnpack_library}.so.0)
    find_library(${xnnpack_name} NAMES ${xnnpack_names} HINTS ${xnnpack_places}
      PATH_SUFFIXES ${xnnpack_folders} NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
    find_library(${xnnpack_name} NAMES ${xnnpack_names})
    mark_as_advanced(${xnnpack_name})
  endforeach()
  set(xnnpack_fits ON)
  if(NOT XNNPACK_INCLUDE_DIR OR NOT XNNPACK_LIBRARY)
    set(xnnpack_fits OFF)
  elseif(NOT PTHREADPOOL_INCLUDE_DIR OR NOT PTHREADPOOL_LIBRARY)
    set(xnnpack_fits OFF)
    set(aot_vendor_why "${XNNPACK_INCLUDE_DIR} has xnnpack.h, but there is no pthreadpool.")
  else()
    # Since 2023 operators are reshaped before they are set up, and created with a cache of weights.
    file(STRINGS "${XNNPACK_INCLUDE_DIR}/xnnpack.h" xnnpack_newer LIMIT_COUNT 1
      REGEX "xnn_(reshape_convolution2d_nhwc_f32|code_cache_t|caches_t|weights_cache_t)")
    if(xnnpack_newer)
      set(xnnpack_fits OFF)
      set(aot_vendor_why
        "the XNNPACK in ${XNNPACK_INCLUDE_DIR} is newer than February 2022: its functions take others.")
    endif()
    foreach(xnnpack_symbol xnn_create_convolution2d_nhwc_qc8 xnn_create_subtract_nd_qs8
        xnn_create_max_pooling2d_nhwc_s8)
      file(STRINGS "${XNNPACK_INCLUDE_DIR}/xnnpack.h" xnnpack_line LIMIT_COUNT 1
        REGEX "${xnnpack_symbol}")
      if(xnnpack_fits AND NOT xnnpack_line)
        set(xnnpack_fits OFF)
        set(aot_vendor_why "${XNNPACK_INCLUDE_DIR}/xnnpack.h has no ${xnnpack_symbol}: it is too old.")
      elseif(xnnpack_fits)
        list(APPEND aot_vendor_symbols "${XNNPACK_LIBRARY}|${xnnpack_symbol}")
      endif()
    endforeach()
  endif()
  if(xnnpack_fits)
    set(xnnpack_links "${XNNPACK_LIBRARY}" "${PTHREADPOOL_LIBRARY}")
    if(CPUINFO_LIBRARY) # named by the program too, whose run path the library's own search ignores
      list(APPEND xnnpack_links
        "-Wl,--push-state,--no-as-needed,${CPUINFO_LIBRARY},--pop-state")
    endif()
    add_library(XNNPACK::XNNPACK INTERFACE IMPORTED GLOBAL)
    set_target_properties(XNNPACK::XNNPACK PROPERTIES INTERFACE_LINK_LIBRARIES "${xnnpack_links}"
      INTERFACE_INCLUDE_DIRECTORIES "${XNNPACK_INCLUDE_DIR};${PTHREADPOOL_INCLUDE_DIR}")
  endif()
endif()
