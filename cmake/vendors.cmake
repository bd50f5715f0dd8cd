# SPDX-License-Identifier: MIT-0
# aot_find_vendor(VENDOR TARGET ADVICE) includes cmake/find_VENDOR.cmake, which defines TARGET where it
# finds the vendor's library, and stops where the library cannot serve; ADVICE ends the message.
# The file may set aot_vendor_why, and aot_vendor_symbols to rows LIBRARY|SYMBOL. It is a macro because
# the file sets variables of the bundle's.
macro(aot_find_vendor vendor target advice)
  set(aot_vendor_why "its library was not found.")
  set(aot_vendor_symbols)
  set(aot_vendor_places "${${vendor}_ROOT}")
  if(NOT aot_vendor_places)
    string(REPLACE ":" ";" aot_vendor_places "$ENV{${vendor}_ROOT}")
  endif()
  if(NOT TARGET ${target})
    # CMake passes over folders that are not there, and would take the system's library.
    foreach(aot_vendor_place ${aot_vendor_places})
      get_filename_component(aot_vendor_place "${aot_vendor_place}" ABSOLUTE)
      if(NOT IS_DIRECTORY "${aot_vendor_place}")
        message(FATAL_ERROR "vendor ${vendor}: ${vendor}_ROOT names ${aot_vendor_place}, which is no "
          "folder: correct ${vendor}_ROOT, or unset it to search the usual places. ${advice}")
      endif()
    endforeach()
    include("${CMAKE_CURRENT_LIST_DIR}/cmake/find_${vendor}.cmake")
    # Headers of one version beside a library of another, or one that was built without a part, else
    # end in errors of the linker. A linker script names the library, and is taken.
    foreach(aot_vendor_row ${aot_vendor_symbols})
      string(REPLACE "|" ";" aot_vendor_row "${aot_vendor_row}")
      list(GET aot_vendor_row 0 aot_vendor_library)
      list(GET aot_vendor_row 1 aot_vendor_symbol)
      file(STRINGS "${aot_vendor_library}" aot_vendor_line LIMIT_COUNT 1
        REGEX "${aot_vendor_symbol}|(GROUP|INPUT) *[(]")
      if(NOT aot_vendor_line)
        message(FATAL_ERROR "vendor ${vendor}: ${aot_vendor_library} has no ${aot_vendor_symbol}: it "
          "is another version than its headers are, or was built without it. ${advice}")
      endif()
    endforeach()
    if(NOT TARGET ${target})
      message(FATAL_ERROR "vendor ${vendor}: ${aot_vendor_why} ${advice}")
    endif()
  endif()
endmacro()
