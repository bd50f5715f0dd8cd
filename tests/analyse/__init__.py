# SPDX-License-Identifier: Apache-2.0
"""Static analysis of the runtime and of what the compiler emits."""
