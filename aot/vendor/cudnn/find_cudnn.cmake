# SPDX-License-Identifier: MIT-0
# cuDNN, cuBLAS and the CUDA runtime as the target aot_cudnn::libraries, if all are found: under the
# folders of cudnn_ROOT (a variable of CMake or of the environment), else cuDNN where CMake looks and
# the others in the CUDA toolkit that find_package(CUDAToolkit) finds.
if(NOT TARGET aot_cudnn::libraries)
  set(cudnn_places ${cudnn_ROOT} $ENV{cudnn_ROOT})
  string(REPLACE ":" ";" cudnn_places "${cudnn_places}")
  if(NOT CMAKE_VERSION VERSION_LESS 3.17)
    find_package(CUDAToolkit QUIET)
  endif()
  set(cudnn_includes)
  set(cudnn_links)
  set(cudnn_missing)
  foreach(cudnn_row "cudnn.h|cudnn|cudnnGetConvolutionForwardAlgorithm_v7"
      "cublas_v2.h|cublas|cublasSetWorkspace"
      "cuda_runtime_api.h|cudart|cudaGraphInstantiateWithFlags")
    string(REPLACE "|" ";" cudnn_row "${cudnn_row}")
    list(GET cudnn_row 0 cudnn_header)
    list(GET cudnn_row 1 cudnn_library)
    list(GET cudnn_row 2 cudnn_symbol)
    string(TOUPPER "AOT_CUDNN_${cudnn_library}" cudnn_name)
    find_path(${cudnn_name}_INCLUDE ${cudnn_header} HINTS ${cudnn_places}
      PATH_SUFFIXES include NO_DEFAULT_PATH)
    find_path(${cudnn_name}_INCLUDE ${cudnn_header} HINTS ${CUDAToolkit_INCLUDE_DIRS})
    # Wheels have the files under their full names only.
    set(cudnn_names ${cudnn_library} lib${cudnn_library}.so.9 lib${cudnn_library}.so.8
      lib${cudnn_library}.so.13 lib${cudnn_library}.so.12 lib${cudnn_library}.so.11.0)
    find_library(${cudnn_name}_LIBRARY NAMES ${cudnn_names} HINTS ${cudnn_places}
      PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
    find_library(${cudnn_name}_LIBRARY NAMES ${cudnn_names} HINTS ${CUDAToolkit_LIBRARY_DIR})
    mark_as_advanced(${cudnn_name}_INCLUDE ${cudnn_name}_LIBRARY)
    if(${cudnn_name}_INCLUDE AND ${cudnn_name}_LIBRARY)
      list(APPEND cudnn_includes "${${cudnn_name}_INCLUDE}")
      list(APPEND cudnn_links "${${cudnn_name}_LIBRARY}")
      list(APPEND aot_vendor_symbols "${${cudnn_name}_LIBRARY}|${cudnn_symbol}")
    else()
      list(APPEND cudnn_missing "${cudnn_header} with lib${cudnn_library}")
    endif()
  endforeach()
  if(cudnn_missing)
    string(REPLACE ";" ", " cudnn_missing "${cudnn_missing}")
    set(aot_vendor_why "not found: ${cudnn_missing}.")
  else()
    # The functions that the sources call are deprecated since cuDNN 9, and there.
    set(cudnn_version_file "${AOT_CUDNN_CUDNN_INCLUDE}/cudnn_version.h")
    set(cudnn_major 9)
    if(EXISTS "${cudnn_version_file}")
      file(STRINGS "${cudnn_version_file}" cudnn_line REGEX "define CUDNN_MAJOR +[0-9]+")
      string(REGEX REPLACE ".*CUDNN_MAJOR +([0-9]+).*" "\\1" cudnn_major "${cudnn_line}")
    endif()
    if(cudnn_major LESS 8)
      set(aot_vendor_symbols)
      set(aot_vendor_why "the cuDNN in ${AOT_CUDNN_CUDNN_INCLUDE} is ${cudnn_major} (needs 8 or 9).")
    else()
      list(REMOVE_DUPLICATES cudnn_includes)
      foreach(cudnn_include ${CUDAToolkit_INCLUDE_DIRS} ${cudnn_places})
        if(EXISTS "${cudnn_include}/crt/host_defines.h")
          list(APPEND cudnn_includes "${cudnn_include}")
        elseif(EXISTS "${cudnn_include}/include/crt/host_defines.h")
          list(APPEND cudnn_includes "${cudnn_include}/include")
        endif()
      endforeach()
      add_library(aot_cudnn::libraries INTERFACE IMPORTED GLOBAL)
      set_target_properties(aot_cudnn::libraries PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${cudnn_includes}"
        INTERFACE_COMPILE_OPTIONS "-Wno-deprecated-declarations"
        INTERFACE_LINK_LIBRARIES "${cudnn_links}")
    endif()
  endif()
endif()
