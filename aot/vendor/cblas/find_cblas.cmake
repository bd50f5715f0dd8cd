# SPDX-License-Identifier: MIT-0
# A BLAS with the C interface as the target CBLAS::cblas, if one is found: under cblas_ROOT (a variable
# of CMake or of the environment) first, then where CMake looks.
if(NOT TARGET CBLAS::cblas)
  find_path(CBLAS_INCLUDE_DIR cblas.h HINTS ${cblas_ROOT} ENV cblas_ROOT
    PATH_SUFFIXES include include/openblas include/blis openblas blis)
  find_library(CBLAS_LIBRARY NAMES openblas blis cblas HINTS ${cblas_ROOT} ENV cblas_ROOT
    PATH_SUFFIXES lib lib64)
  mark_as_advanced(CBLAS_INCLUDE_DIR CBLAS_LIBRARY)
  if(CBLAS_INCLUDE_DIR AND CBLAS_LIBRARY)
    set(aot_vendor_symbols "${CBLAS_LIBRARY}|cblas_sgemm") # some are built without the C interface
    add_library(CBLAS::cblas UNKNOWN IMPORTED)
    set_target_properties(CBLAS::cblas PROPERTIES IMPORTED_LOCATION "${CBLAS_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${CBLAS_INCLUDE_DIR}")
  endif()
endif()
