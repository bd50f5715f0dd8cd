# SPDX-License-Identifier: Apache-2.0
"""The C files of the machine and its driver, in this folder."""

#: The simulated machine. On hardware these are left out and AX1_MMIO_BASE is defined.
SIMULATOR = (
    "ax1_sim.c",
    "ax1_decode.c",
    "ax1_timing.c",
    "ax1_dma.c",
    "ax1_product.c",
    "ax1_vector.c",
)
SIMULATOR_HEADERS = ("ax1_core.h", "ax1_math.h")

#: The driver, and what stands between it and a board.
DRIVER = ("ax1_driver.c", "ax1_board.c")
DRIVER_HEADERS = ("ax1.h", "ax1_isa.h", "ax1_driver.h", "ax1_board.h")
