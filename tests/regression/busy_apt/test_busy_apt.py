# SPDX-License-Identifier: Apache-2.0
"""`make test` failed where another apt held its lock, as on machines that were just started."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LOCK = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt)"
#: apt-get that fails with `{error}` until it was called `{times}` times; what it was called with.
APT = """#!/bin/sh
echo "$@" >> {folder}/calls
echo "Get:1 noise"
[ "$(wc -l < {folder}/calls)" -gt {times} ] || {{ echo "{error}" >&2; exit 100; }}
"""


def tools(folder: Path, error: str, times: int) -> Path:
    """A folder of programs for PATH; nothing is installed, and sleeping takes no time."""
    texts = {
        "apt-get": APT.format(folder=folder, error=error, times=times),
        "dpkg": "#!/bin/sh\nexit 1\n",
        "sudo": '#!/bin/sh\nexec "$@"\n',
        "sleep": f"#!/bin/sh\necho slept >> {folder}/slept\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def makes(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """`make` of the virtual environment, which needs the packages first."""
    path = f"{folder}:{os.environ['PATH']}"
    venv, make = folder / "venv", shutil.which("make")
    assert make is not None
    words = [make, "-C", str(ROOT), f"VENV={venv}", "PYTHON=true", f"PY={folder}/python"]
    (folder / "python").write_text("#!/bin/sh\n")
    (folder / "python").chmod(0o755)
    venv.mkdir()
    return subprocess.run(
        [*words, f"{venv}/.run"],
        env={**os.environ, **env, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_it_waits_and_says_so(tmp_path: Path) -> None:
    done = makes(tools(tmp_path, LOCK, 2))
    assert done.returncode == 0, done.stdout + done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [c.split()[0] for c in calls] == ["update", "update", "update", "install"]
    assert (tmp_path / "slept").read_text().split() == ["slept"] * 2
    assert done.stderr.count("waiting for another apt") == 1
    assert "held by process 1" in done.stderr
    assert "noise" not in done.stdout + done.stderr


def test_it_gives_up(tmp_path: Path) -> None:
    done = makes(tools(tmp_path, LOCK, 99), AOT_APT_WAIT="10")
    assert done.returncode != 0
    assert "gave up after 10 s" in done.stderr and "Could not get lock" in done.stderr


def test_other_errors_are_shown_at_once(tmp_path: Path) -> None:
    done = makes(tools(tmp_path, "E: Unable to locate package nothing", 99))
    assert done.returncode != 0
    assert "Unable to locate package" in done.stderr and "waiting" not in done.stderr
    assert not (tmp_path / "slept").exists()
