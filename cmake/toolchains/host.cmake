# SPDX-License-Identifier: MIT-0
# The compiler of this machine: CMake finds it (CC and CFLAGS are respected). The instruction set is
# chosen by compile options of the bundle's own targets, so nothing is set here.
