# SPDX-License-Identifier: MIT-0
# aot_add_model(NAME MODEL.onnx [OPTIONS <aotc option>...] [DEPENDS <file>...])
#
# Compiles the model when CMake configures and adds the library target NAME (alias aot::NAME). It is
# compiled again when the model, a file of DEPENDS (external data, say), an option or aotc changes.
#
# aot_add_models(NAME [SHARED_ARENA] MODELS <name>=<MODEL.onnx>...
#                [OPTIONS <aotc option>...] [DEPENDS <file>...])
#
# Adds a library target for each model (alias aot::<name>), and NAME (alias aot::NAME) for all. With
# SHARED_ARENA they share one arena of the largest size and equal constants (`aotc link`): only one
# of them runs at a time.
#
# AOTC_COMMAND: the compiler, a program with leading arguments (default: aotc on PATH).
include_guard(GLOBAL)

function(aot_add_model name model)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "" "" "OPTIONS;DEPENDS")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "aot_add_model(${name}): unknown arguments: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  _aot_compile("aot_add_model(${name})" "${name}" "${model}" "${ARG_OPTIONS}" "${ARG_DEPENDS}")
  add_subdirectory("${out}/bundle" "${out}/build")
  _aot_alias("${name}" "${out}/bundle")
endfunction()

function(aot_add_models name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "SHARED_ARENA" "" "MODELS;OPTIONS;DEPENDS")
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_MODELS)
    message(FATAL_ERROR "aot_add_models(${name}): no MODELS, or unknown arguments: "
      "${ARG_UNPARSED_ARGUMENTS}")
  endif()
  set(outs "")
  set(models "")
  set(keys "")
  foreach(pair IN LISTS ARG_MODELS)
    if(NOT pair MATCHES "^([A-Za-z0-9_]+)=(.+)$")
      message(FATAL_ERROR "aot_add_models(${name}): ${pair} is not <name>=<MODEL.onnx>")
    endif()
    set(own "${CMAKE_MATCH_1}")
    _aot_compile("aot_add_models(${name})" "${own}" "${CMAKE_MATCH_2}" "${ARG_OPTIONS}"
      "${ARG_DEPENDS}")
    list(APPEND models "${own}")
    list(APPEND outs "${out}")
    string(APPEND keys "${own} ${key}")
    if(NOT ARG_SHARED_ARENA)
      add_subdirectory("${out}/bundle" "${out}/build")
      _aot_alias("${own}" "${out}/bundle")
    endif()
  endforeach()
  if(NOT ARG_SHARED_ARENA)
    list(TRANSFORM models PREPEND "aot::")
    add_library(${name} INTERFACE)
    add_library(aot::${name} ALIAS ${name})
    target_link_libraries(${name} INTERFACE ${models})
    return()
  endif()
  set(linked "${CMAKE_CURRENT_BINARY_DIR}/aot-${name}")
  _aot_known("${linked}" "${keys}")
  if(NOT known)
    _aot_run("aot_add_models(${name})" "${linked}" "${keys}"
      link ${outs} -o "${linked}" --name "${name}")
  endif()
  add_subdirectory("${linked}/bundle" "${linked}/build")
  foreach(own IN LISTS models) # ZIP_LISTS is of CMake 3.17
    _aot_alias("${own}" "${CMAKE_CURRENT_BINARY_DIR}/aot-${own}/bundle")
  endforeach()
endfunction()

# Compile a model unless that is done: `out` is its folder, `key` all that it depends on.
function(_aot_compile who name model options depends)
  get_filename_component(model "${model}" ABSOLUTE)
  if(NOT EXISTS "${model}")
    message(FATAL_ERROR "${who}: ${model} does not exist")
  endif()
  if(NOT AOTC_COMMAND)
    find_program(AOTC_EXECUTABLE aotc)
    if(NOT AOTC_EXECUTABLE)
      message(FATAL_ERROR "${who}: aotc is not on PATH; set AOTC_COMMAND")
    endif()
    set(AOTC_COMMAND "${AOTC_EXECUTABLE}")
    set(AOTC_COMMAND "${AOTC_EXECUTABLE}" PARENT_SCOPE)
  endif()

  execute_process(COMMAND ${AOTC_COMMAND} --version OUTPUT_VARIABLE key RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${who}: ${AOTC_COMMAND} --version failed: ${failed}")
  endif()
  foreach(file IN ITEMS "${model}" LISTS depends)
    get_filename_component(file "${file}" ABSOLUTE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    file(SHA256 "${file}" digest)
    string(APPEND key "${digest} ${file}\n")
  endforeach()
  string(APPEND key "${options}\n")

  set(out "${CMAKE_CURRENT_BINARY_DIR}/aot-${name}")
  _aot_known("${out}" "${key}")
  if(NOT known)
    message(STATUS "aotc: compiling ${model}")
    _aot_run("${who}" "${out}" "${key}" "${model}" -o "${out}" --name "${name}" ${options})
  endif()
  set(out "${out}" PARENT_SCOPE)
  set(key "${key}" PARENT_SCOPE)
endfunction()

# Whether what aotc wrote to `out` was made from `key`, in `known`.
function(_aot_known out key)
  set(known OFF)
  if(EXISTS "${out}/compiled-from.txt" AND EXISTS "${out}/bundle/manifest.json")
    file(READ "${out}/compiled-from.txt" before)
    if(before STREQUAL key)
      set(known ON)
    endif()
  endif()
  set(known ${known} PARENT_SCOPE)
endfunction()

# Let aotc write to `out`, and note `key` there.
function(_aot_run who out key)
  execute_process(COMMAND ${AOTC_COMMAND} ${ARGN} --no-configure -q
    RESULT_VARIABLE failed ERROR_VARIABLE errors)
  if(failed)
    message(FATAL_ERROR "${who}:\n${errors}")
  endif()
  file(WRITE "${out}/compiled-from.txt" "${key}")
endfunction()

# aot::NAME where the bundle has another name, because this one is reserved.
function(_aot_alias name bundle)
  if(NOT TARGET aot::${name})
    file(STRINGS "${bundle}/manifest.json" line REGEX "^ \"name\": " LIMIT_COUNT 1)
    string(REGEX REPLACE ".*: \"([A-Za-z0-9_]+)\".*" "\\1" actual "${line}")
    add_library(aot::${name} ALIAS ${actual})
  endif()
endfunction()
