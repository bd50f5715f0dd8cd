# SPDX-License-Identifier: Apache-2.0
"""How much stack a bundle takes: declared when it is compiled, computed from what was built."""
