# SPDX-License-Identifier: Apache-2.0
"""Records that one stage hands to the next, their text forms, and the checkers of programs."""
