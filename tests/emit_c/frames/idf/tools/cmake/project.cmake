# SPDX-License-Identifier: MIT-0
# Commands of ESP-IDF that a component and a project use, on this machine.
function(component_named name sources includes own needed)
  add_library(__idf_${name} STATIC ${sources})
  target_include_directories(__idf_${name} PUBLIC ${includes} PRIVATE ${own})
  foreach(other IN LISTS needed)
    target_link_libraries(__idf_${name} PRIVATE __idf_${other})
  endforeach()
endfunction()

macro(idf_component_register)
  cmake_parse_arguments(IDF "" "" "SRCS;INCLUDE_DIRS;PRIV_INCLUDE_DIRS;PRIV_REQUIRES" ${ARGV})
  get_filename_component(COMPONENT_NAME "${CMAKE_CURRENT_LIST_DIR}" NAME)
  set(COMPONENT_LIB __idf_${COMPONENT_NAME})
  component_named(${COMPONENT_NAME} "${IDF_SRCS}" "${IDF_INCLUDE_DIRS}" "${IDF_PRIV_INCLUDE_DIRS}"
    "${IDF_PRIV_REQUIRES}")
endmacro()

macro(project name)
  _project(${name} LANGUAGES C)
  file(GLOB components "${CMAKE_CURRENT_SOURCE_DIR}/components/*")
  foreach(component IN LISTS components ITEMS "${CMAKE_CURRENT_SOURCE_DIR}/main")
    add_subdirectory("${component}")
  endforeach()
  file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/start.c"
    "void app_main(void);\nint main(void) {\n    app_main();\n    return 0;\n}\n")
  add_executable(${name} "${CMAKE_CURRENT_BINARY_DIR}/start.c")
  target_link_libraries(${name} PRIVATE __idf_main m)
endmacro()
