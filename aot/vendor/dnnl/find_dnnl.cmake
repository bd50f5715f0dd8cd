# SPDX-License-Identifier: MIT-0
# oneDNN's C interface as the target DNNL::dnnl, if it is found: under dnnl_ROOT (a variable of
# CMake or of the environment) first, then where CMake looks. Its own CMake package is not used:
# some ask for OpenCL, which no call of ours needs.
if(NOT TARGET DNNL::dnnl)
  find_path(DNNL_INCLUDE_DIR dnnl.h HINTS ${dnnl_ROOT} ENV dnnl_ROOT PATH_SUFFIXES include
    NO_DEFAULT_PATH)
  find_path(DNNL_INCLUDE_DIR dnnl.h)
  get_filename_component(dnnl_prefix "${DNNL_INCLUDE_DIR}/.." ABSOLUTE)
  find_library(DNNL_LIBRARY dnnl HINTS "${dnnl_prefix}" PATH_SUFFIXES lib lib64
    "lib/${CMAKE_LIBRARY_ARCHITECTURE}" NO_DEFAULT_PATH)
  find_library(DNNL_LIBRARY dnnl)
  mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)
  # 2.6 to 3.x; a library whose version is not told is taken.
  set(dnnl_fits ON)
  foreach(dnnl_header "oneapi/dnnl/dnnl_version.h" "dnnl_version.h")
    if(DNNL_INCLUDE_DIR AND EXISTS "${DNNL_INCLUDE_DIR}/${dnnl_header}")
      file(STRINGS "${DNNL_INCLUDE_DIR}/${dnnl_header}" dnnl_lines
        REGEX "define DNNL_VERSION_(MAJOR|MINOR) +[0-9]+")
      string(REGEX REPLACE "[^0-9;]" "" dnnl_version "${dnnl_lines}")
      string(REPLACE ";" "." dnnl_version "${dnnl_version}")
      if(dnnl_version MATCHES "^[0-9]+[.][0-9]+$" AND
          (dnnl_version VERSION_LESS 2.6 OR NOT dnnl_version VERSION_LESS 4))
        set(dnnl_fits OFF)
        set(aot_vendor_why
          "the oneDNN ${dnnl_version} in ${dnnl_prefix} does not fit (needs 2.6 or newer, below 4).")
      endif()
      set(dnnl_symbol dnnl_convolution_forward_primitive_desc_create)
      if(dnnl_version VERSION_LESS 3)
        set(dnnl_symbol dnnl_convolution_forward_desc_init)
      endif()
      if(dnnl_fits AND DNNL_LIBRARY)
        set(aot_vendor_symbols "${DNNL_LIBRARY}|${dnnl_symbol}")
      endif()
      break()
    endif()
  endforeach()
  if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY AND dnnl_fits)
    add_library(DNNL::dnnl UNKNOWN IMPORTED)
    set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION "${DNNL_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${DNNL_INCLUDE_DIR}")
  endif()
endif()
