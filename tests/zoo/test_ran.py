# SPDX-License-Identifier: Apache-2.0
"""The reason that the list of tried models shows when a step fails."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ran import Ran

LONG = "first\\nValueError: seen on the way\\n\\n(See above.)"
FAILS = {
    f"raise RuntimeError('{LONG}')": "RuntimeError: first",
    # The name of an exception need not end in Error.
    f"class Guard(Exception): pass\nraise Guard('{LONG}')": "Guard: first",
    f"try: 1 / 0\nexcept ZeroDivisionError as e: raise OSError('{LONG}') from e": (
        "ZeroDivisionError: division by zero"
    ),
    f"try: 1 / 0\nexcept ZeroDivisionError: raise OSError('{LONG}')": "OSError: first",
    "def f(n):\n    f(n + 1)\nf(0)": "RecursionError: maximum recursion depth exceeded",
    "import sys\nsys.exit('note: a note\\nerror: a reason\\n  in a model')": "error: a reason",
    "print('one'); print('two'); exit(1)": "two",
}


@pytest.mark.parametrize(("source", "expected"), FAILS.items())
def test_the_line_that_says_why(source: str, expected: str) -> None:
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert Ran(done.returncode, done.stdout, done.stderr).line() == expected
