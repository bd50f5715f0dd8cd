# SPDX-License-Identifier: Apache-2.0
"""Flags of GCC's sanitizers, for every test that compiles with them."""

#: Checks of memory are calls, not code at every access: they see the same, and compilation takes a
#: third less time. clang's own option of this kind saves none.
BY_CALLS = "--param=asan-instrumentation-with-call-threshold=0"
CHECKS = ("-fsanitize=address,undefined", BY_CALLS, "-fno-sanitize-recover=all")
#: The same as an environment variable CFLAGS.
SANITIZED = " ".join(("-O1", *CHECKS))
