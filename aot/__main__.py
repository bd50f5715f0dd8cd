# SPDX-License-Identifier: Apache-2.0
"""`python -m aot` is `aotc`."""

import sys

from aot.cli import main

if __name__ == "__main__":
    sys.exit(main())
