# SPDX-License-Identifier: Apache-2.0
"""Static memory planning: aliasing, live ranges, exact offsets, and a checker of its own."""
