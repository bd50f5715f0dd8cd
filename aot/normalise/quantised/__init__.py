# SPDX-License-Identifier: Apache-2.0
"""Passes that bring every spelling of quantisation to one form."""
