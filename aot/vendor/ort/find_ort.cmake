# SPDX-License-Identifier: MIT-0
# onnxruntime's library as the target onnxruntime::onnxruntime, if it is found: under ort_ROOT (a
# variable of CMake or of the environment), else in the wheel of the Python that is found first, else
# where CMake looks. The wheel has the file under its full version only: programs ask for
# libonnxruntime.so.1, a link in the build folder.
if(NOT TARGET onnxruntime::onnxruntime)
  set(ort_places ${ort_ROOT})
  if(NOT ort_places)
    set(ort_places $ENV{ort_ROOT})
  endif()
  set(ort_named "${ort_places}")
  if(NOT ort_named)
    find_program(ort_python NAMES python3 python)
    mark_as_advanced(ort_python)
    if(ort_python)
      execute_process(COMMAND "${ort_python}" -c
        "import importlib.util as u; print(u.find_spec('onnxruntime').submodule_search_locations[0])"
        OUTPUT_VARIABLE ort_places OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
  endif()
  set(ort_library)
  foreach(ort_place ${ort_places})
    file(GLOB ort_files "${ort_place}/libonnxruntime.so*" "${ort_place}/capi/libonnxruntime.so*"
      "${ort_place}/lib/libonnxruntime.so*")
    list(APPEND ort_library ${ort_files})
  endforeach()
  if(NOT ort_library AND NOT ort_named)
    find_library(ONNXRUNTIME_LIBRARY onnxruntime)
    mark_as_advanced(ONNXRUNTIME_LIBRARY)
    if(ONNXRUNTIME_LIBRARY)
      set(ort_library "${ONNXRUNTIME_LIBRARY}")
    endif()
  endif()
  if(ort_library)
    list(GET ort_library 0 ort_library)
    get_filename_component(ort_library "${ort_library}" REALPATH)
    # The interface that the model asks for is the second number of the library's version.
    string(REGEX MATCH "AOT_ORT_INTERFACE=([0-9]+)" ort_asked "${vendor_definitions}")
    set(ort_needs "${CMAKE_MATCH_1}")
    string(REGEX MATCH "so[.]1[.]([0-9]+)" ort_version "${ort_library}")
    if(ort_asked AND ort_version AND CMAKE_MATCH_1 LESS ort_needs)
      set(aot_vendor_why
        "${ort_library} is too old: the model was compiled with version 1.${ort_needs}.")
    else()
      set(ort_link "${CMAKE_BINARY_DIR}/onnxruntime/libonnxruntime.so.1")
      file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/onnxruntime")
      file(CREATE_LINK "${ort_library}" "${ort_link}" SYMBOLIC)
      set(aot_vendor_symbols "${ort_library}|OrtGetApiBase")
      add_library(onnxruntime::onnxruntime SHARED IMPORTED)
      set_target_properties(onnxruntime::onnxruntime PROPERTIES IMPORTED_LOCATION "${ort_link}")
    endif()
  endif()
endif()
