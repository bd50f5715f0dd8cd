# SPDX-License-Identifier: MIT-0
# Which machine runs the commands: the simulator, or hardware.
set(AX1_MMIO_BASE "" CACHE STRING "Address of the registers of AX1; empty: the simulator")
set(AX1_BOARD "" CACHE STRING "Header with the macros of ax1_driver.h for your board")
if(AX1_MMIO_BASE)
  list(FILTER vendor_definitions EXCLUDE REGEX "^AX1_BOARD=")
  list(APPEND vendor_definitions "AX1_MMIO_BASE=${AX1_MMIO_BASE}")
endif()
if(AX1_BOARD)
  list(FILTER vendor_definitions EXCLUDE REGEX "^AX1_BOARD=")
  list(APPEND vendor_definitions "AX1_BOARD=\"${AX1_BOARD}\"")
endif()
