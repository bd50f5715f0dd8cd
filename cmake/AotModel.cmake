# SPDX-License-Identifier: MIT-0
# aot_add_model(NAME MODEL.onnx [OPTIONS <aotc option>...] [DEPENDS <file>...])
#
# Compiles the model when CMake configures and adds the library target NAME (alias aot::NAME). It is
# compiled again when the model, a file of DEPENDS (external data, say), an option or aotc changes.
#
# AOTC_COMMAND: the compiler, a program with leading arguments (default: aotc on PATH).
include_guard(GLOBAL)

function(aot_add_model name model)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "" "" "OPTIONS;DEPENDS")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "aot_add_model(${name}): unknown arguments: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  get_filename_component(model "${model}" ABSOLUTE)
  if(NOT EXISTS "${model}")
    message(FATAL_ERROR "aot_add_model(${name}): ${model} does not exist")
  endif()
  if(NOT AOTC_COMMAND)
    find_program(AOTC_EXECUTABLE aotc)
    if(NOT AOTC_EXECUTABLE)
      message(FATAL_ERROR "aot_add_model(${name}): aotc is not on PATH; set AOTC_COMMAND")
    endif()
    set(AOTC_COMMAND "${AOTC_EXECUTABLE}")
  endif()

  execute_process(COMMAND ${AOTC_COMMAND} --version OUTPUT_VARIABLE key RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "aot_add_model(${name}): ${AOTC_COMMAND} --version failed: ${failed}")
  endif()
  foreach(file IN ITEMS "${model}" LISTS ARG_DEPENDS)
    get_filename_component(file "${file}" ABSOLUTE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    file(SHA256 "${file}" digest)
    string(APPEND key "${digest} ${file}\n")
  endforeach()
  string(APPEND key "${ARG_OPTIONS}\n")

  set(out "${CMAKE_CURRENT_BINARY_DIR}/aot-${name}")
  set(known "")
  if(EXISTS "${out}/compiled-from.txt" AND EXISTS "${out}/bundle/manifest.json")
    file(READ "${out}/compiled-from.txt" known)
  endif()
  if(NOT known STREQUAL key)
    message(STATUS "aotc: compiling ${model}")
    execute_process(
      COMMAND ${AOTC_COMMAND} "${model}" -o "${out}" --name "${name}" --no-configure -q ${ARG_OPTIONS}
      RESULT_VARIABLE failed ERROR_VARIABLE errors)
    if(failed)
      message(FATAL_ERROR "aot_add_model(${name}):\n${errors}")
    endif()
    file(WRITE "${out}/compiled-from.txt" "${key}")
  endif()

  add_subdirectory("${out}/bundle" "${out}/build")
  if(NOT TARGET aot::${name}) # a reserved name: the bundle has another
    file(STRINGS "${out}/bundle/manifest.json" line REGEX "^ \"name\": " LIMIT_COUNT 1)
    string(REGEX REPLACE ".*: \"([A-Za-z0-9_]+)\".*" "\\1" actual "${line}")
    add_library(aot::${name} ALIAS ${actual})
  endif()
endfunction()
