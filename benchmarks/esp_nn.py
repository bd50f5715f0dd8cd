# SPDX-License-Identifier: Apache-2.0
"""ESP-NN and portable C on RISC-V under QEMU: instructions, flash and RAM.

    AOT_ESP_NN_ROOT=<folder> AOT_TEST_MODELS=<folder> python benchmarks/esp_nn.py \\
        [--target T …] [--layers] [MODEL …]

Each MLPerf Tiny network in int8 three times, as cmsis_nn.py does it. The library is its plain C;
with CFLAGS=-DCONFIG_NN_OPTIMIZED that with fewer branches.
"""

from __future__ import annotations

import sys
from functools import partial

from boards import tables
from cmsis_nn import HEAD, network

NETWORKS = ("ic", "vww", "kws", "ad", "sww")
TARGETS = ("rv32imc", "rv32imac")

if __name__ == "__main__":
    needed = ("AOT_TEST_MODELS", "AOT_ESP_NN_ROOT")
    head, line = HEAD.replace("CMSIS-NN", "ESP-NN"), partial(network, vendor="esp_nn")
    sys.exit(tables(__doc__, NETWORKS, TARGETS, head, line, needed))
