# SPDX-License-Identifier: Apache-2.0
"""Order of the calls, arena, memories of boards, stack, budgets."""
