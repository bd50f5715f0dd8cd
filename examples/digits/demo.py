# SPDX-License-Identifier: Apache-2.0
"""Compile digits.onnx to C, build it, run it on images it has never seen and count what is right.

    python examples/digits/demo.py [OUT]

Then the same in 8-bit integers on an emulated Cortex-M4. The two commands it runs are the ones any
model needs. OUT (default: out/digits) keeps the C project in OUT/bundle and the libraries in
OUT/lib; OUT-m4 is the board's. Exits 1 if the accuracy is not the one in the models.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

HERE = Path(__file__).parent
AOTC = (sys.executable, "-m", "aot")
SHADES = " .:-=+*#@"


def run(*command: str) -> None:
    """Show a command and run it; leave with its exit code if it fails."""
    shown = ["aotc" if c == "aot" else c for c in command if c not in (sys.executable, "-m")]
    print("$", " ".join(shown), flush=True)
    code = subprocess.run(command).returncode
    if code:
        sys.exit(code)


def build(out: Path) -> None:
    """Show the command that builds `out`, and run it; show what it says only if it fails."""
    command = ["cmake", "--build", str(out)]
    print("$", " ".join(command), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.stdout.write(done.stdout)
        sys.exit(done.returncode)


def drawing(pixels: Array) -> list[str]:
    """An image of 0..16 as eight lines of characters."""
    return ["".join(SHADES[int(v) // 2] * 2 for v in row) for row in pixels]


def side_by_side(blocks: list[list[str]]) -> str:
    """Several drawings next to each other."""
    return "\n".join("   ".join(lines) for lines in zip(*blocks, strict=True))


def caption(truth: int, chances: Array) -> str:
    """One line under a drawing."""
    guess = int(chances.argmax())
    verdict = "" if guess == truth else f", is {truth}"
    return f"{guess} ({chances[guess]:.0%}{verdict})".ljust(16)


def noted_result(model: str) -> tuple[int, int]:
    """Correct and held-out images of the network, from the model's own metadata."""
    import onnx

    notes = {p.key: p.value for p in onnx.load(HERE / model).metadata_props}
    return int(notes["correct"]), int(notes["held_out"])


def on_board(out: Path, pixels: Array, labels: Array) -> bool:
    """The quantised network on a Cortex-M4 under QEMU; whether its accuracy is the noted one."""
    print()
    run(*AOTC, str(HERE / "digits_int8.onnx"), "-o", str(out), "--target", "cortex-m4")
    build(out)
    run(*AOTC, "bench", str(out))

    from aot.tools.run import open_out, stream

    quantised = pixels.astype(np.int8)[:, None, None]
    chances = np.array([o[0][0] for o in stream(open_out(out), [[c] for c in quantised])])
    right = int((chances.argmax(1) == labels).sum())
    correct, held_out = noted_result("digits_int8.onnx")
    print(f"\nint8 on Cortex-M4, correct: {right} of {len(labels)} images ({right / held_out:.2%})")
    return (right, len(labels)) == (correct, held_out)


def main(out: Path) -> int:
    """The demonstration; returns the exit code."""
    run(*AOTC, str(HERE / "digits.onnx"), "-o", str(out))
    build(out)

    from aot.api import Bundle

    bundle = Bundle(out)
    digits = bundle.load()
    memory = bundle.manifest["memory"]
    samples = np.load(HERE / "digits_test.npz")
    pixels, labels = samples["pixels"], samples["labels"]
    images = (pixels / np.float32(16)).astype(np.float32)[:, None, None]
    chances = np.array([digits(image)[0] for image in images])

    right = chances.argmax(1) == labels
    wrong = int(np.flatnonzero(~right)[0]) if not right.all() else 3
    shown = [0, 1, 2, wrong]
    print(f"\n{memory['arena_bytes']} bytes of RAM, {memory['constants_bytes']} of constants\n")
    print(side_by_side([drawing(pixels[i]) for i in shown]))
    print("   ".join(caption(int(labels[i]), chances[i]) for i in shown))
    correct, held_out = noted_result("digits.onnx")
    print(f"\ncorrect: {right.sum()} of {len(labels)} images ({right.mean():.2%})")
    print(f"trained network: {correct} of {held_out}")
    good = (int(right.sum()), len(labels)) == (correct, held_out)
    return 0 if on_board(out.with_name(f"{out.name}-m4"), pixels, labels) and good else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("out/digits")))
