# SPDX-License-Identifier: MIT-0
# Arm's driver: the target ethosu_core_driver of the project, or the folder AOT_ETHOS_U_ROOT, a
# checkout of the driver with a built library. Without either a stand-in checks what it is given.
if(NOT TARGET ethosu_core_driver AND NOT AOT_ETHOS_U_ROOT)
  list(APPEND vendor_definitions AOT_ETHOS_U_STANDIN)
  # To see what happens: the call of the driver that fails, and another NPU than that of the
  # commands, as PRODUCT/LOG_MACS.
  if(AOT_ETHOS_U_STANDIN_FAIL)
    list(APPEND vendor_definitions "AOT_ETHOS_U_STANDIN_FAIL=${AOT_ETHOS_U_STANDIN_FAIL}")
  endif()
  if(AOT_ETHOS_U_STANDIN_NPU MATCHES "^([0-2])/([0-9]+)$")
    list(FILTER vendor_definitions EXCLUDE REGEX "^AOT_ETHOS_U_(PRODUCT|LOG_MACS)=")
    list(APPEND vendor_definitions "AOT_ETHOS_U_PRODUCT=${CMAKE_MATCH_1}"
      "AOT_ETHOS_U_LOG_MACS=${CMAKE_MATCH_2}")
  endif()
  message(STATUS "Ethos-U: no driver (target ethosu_core_driver or AOT_ETHOS_U_ROOT): a stand-in "
    "checks the command streams, portable C computes")
elseif(TARGET ethosu_core_driver)
  list(APPEND vendor_links_${PROJECT_NAME} ethosu_core_driver)
else()
  find_library(ETHOS_U_DRIVER NAMES ethosu_core_driver HINTS "${AOT_ETHOS_U_ROOT}"
    PATH_SUFFIXES lib build NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
  mark_as_advanced(ETHOS_U_DRIVER)
  if(NOT ETHOS_U_DRIVER)
    message(FATAL_ERROR "vendor ethos_u: ${AOT_ETHOS_U_ROOT} has no libethosu_core_driver.a, in "
      "lib or build. Build Arm's driver there, or -DAOT_ETHOS_U=OFF: portable C instead.")
  endif()
  list(APPEND vendor_links_${PROJECT_NAME} "${ETHOS_U_DRIVER}")
endif()
