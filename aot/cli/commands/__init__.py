# SPDX-License-Identifier: Apache-2.0
"""The subcommands, a module each: `command` takes parsed arguments and returns an Answer."""
