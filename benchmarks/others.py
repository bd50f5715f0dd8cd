# SPDX-License-Identifier: Apache-2.0
"""Other tools on the digits: the table of docs/explanation/comparison.md.

    python benchmarks/others.py [ROUNDS]

Installs the versions below into build/others, compiles examples/digits/digits.onnx with each tool,
and prints bytes and the median CPU time of a run, in ROUNDS (7) interleaved rounds. Needs gcc,
arm-none-eabi-gcc and the network.
"""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "others"
MODEL = ROOT / "examples" / "digits" / "digits.onnx"
VERSIONS = {"emx-onnx-cgen": "1.4.0", "onnxruntime": "1.32.0", "numpy": "2.4.6"}
M4 = "arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -O2"
LOOP = """
#include <stdio.h>
#include <time.h>
void model(const float image[1][1][8][8], float probabilities[1][10]);
static float image[1][1][8][8], probabilities[1][10];
int main(void) {
    const clock_t start = clock();
    for (int i = 0; i < 20000; i++) model(image, probabilities);
    printf("%g\\n", 1e6 * (double)(clock() - start) / CLOCKS_PER_SEC / 20000);
    return 0;
}
"""
SESSION = """
import sys, time
import numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = 1
session = ort.InferenceSession(sys.argv[1], options)
image = {"image": np.zeros((1, 1, 8, 8), np.float32)}
start = time.process_time()
for _ in range(20000):
    session.run(None, image)
print((time.process_time() - start) / 20000 * 1e6)
"""


def run(*words: object) -> str:
    """Output of a command in the folder of the work; CalledProcessError if it fails."""
    command = [str(w) for w in words]
    return subprocess.run(command, cwd=WORK, check=True, capture_output=True, text=True).stdout


def microseconds(command: Callable[[], str]) -> float:
    """The first number with a point that the command prints."""
    found = re.search(r"\d+\.?\d*(e-\d+)?", command())
    assert found
    return float(found[0])


def main() -> None:
    """Print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    WORK.mkdir(parents=True, exist_ok=True)
    if not (WORK / "bin").is_dir():
        venv.create(WORK, with_pip=True)
        run("bin/pip", "install", "-q", *(f"{n}=={v}" for n, v in VERSIONS.items()))
    aotc = (sys.executable, "-m", "aot")
    run("bin/emx-onnx-cgen", "compile", "--large-temp-threshold", "0", MODEL, "model.c")
    (WORK / "loop.c").write_text(LOOP)
    run(*"gcc -O3 -march=native model.c loop.c -lm -o loop".split())
    run(*M4.split(), *"-fstack-usage -c model.c -o m4.o".split())
    emx_text = run("arm-none-eabi-size", "m4.o").split()[6]
    emx_stack = max(int(n) for n in re.findall(r"\t(\d+)\t", (WORK / "m4.su").read_text()))
    for target in ("host", "cortex-m4"):
        run(*aotc, MODEL, "-o", target, "--target", target, "-q")
        run("cmake", "--build", target)
    library = run("arm-none-eabi-size", "-t", "cortex-m4/lib/libdigits.a").splitlines()[-1].split()
    ours = re.search(r"arena (\d+).*stack (\d+)", run(*aotc, "size", "cortex-m4"))
    assert ours
    timed: dict[str, Callable[[], str]] = {
        "aotc": lambda: run(*aotc, "bench", "host").partition(": ")[2],
        "emx-onnx-cgen": lambda: run("./loop"),
        "onnxruntime": lambda: run("bin/python", "-c", SESSION, MODEL),
    }
    times: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(rounds):
        for name, command in timed.items():
            times[name].append(microseconds(command))
    wheel = WORK / "lib" / f"python3.{sys.version_info.minor}/site-packages/onnxruntime"
    installed = sum(p.stat().st_size for p in wheel.rglob("*") if p.is_file())
    print(
        "| tool | us per run on the host | flash, Cortex-M4 | RAM, Cortex-M4 |\n|---|---|---|---|"
    )
    for name, flash, ram in (
        ("aotc", library[0], f"{int(ours[1]) + int(ours[2])} (arena {ours[1]}, stack {ours[2]})"),
        ("emx-onnx-cgen", emx_text, f"{emx_stack} (stack)"),
        ("onnxruntime", f"- ({installed >> 20} MiB installed)", "-"),
    ):
        version = VERSIONS.get(name, "this checkout")
        print(f"| {name} {version} | {median(times[name]):.2f} | {flash} | {ram} |")


if __name__ == "__main__":
    main()
