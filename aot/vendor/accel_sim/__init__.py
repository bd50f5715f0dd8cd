# SPDX-License-Identifier: Apache-2.0
"""accel_sim: the AX1 accelerator, its instruction set, tools, simulator and driver.

README.md says what is where and why. Nothing here imports the compiler.
"""
