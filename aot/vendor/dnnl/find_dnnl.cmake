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
  if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY)
    add_library(DNNL::dnnl UNKNOWN IMPORTED)
    set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION "${DNNL_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${DNNL_INCLUDE_DIR}")
  endif()
endif()
