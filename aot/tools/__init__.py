# SPDX-License-Identifier: Apache-2.0
"""What is done with a finished bundle: build, run, verify, measure, report."""
