# SPDX-License-Identifier: Apache-2.0
"""AX1-256 on the five int8 networks of MLPerf Tiny, beside Vela's estimate for Ethos-U55-256.

    AOT_TEST_MODELS=<folder> python benchmarks/accel.py [MODEL …]

MODEL: ic vww kws ad sww (all). Every network is compiled three times: weights in flash as they are,
in flash compressed where that saves cycles, and resident in SRAM; bytes of each column come from
the build its cycles come from. The second build runs on this machine, is verified against
onnxruntime and tells how fast the simulator is. Exits 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from aot.vendor.accel_sim.config import Config, config  # noqa: E402

KIB = 1024
#: Local memories and SRAM together may take this much more than Vela's SRAM: the local memory of an
#: Ethos-U55-256, which Vela does not count either.
SHRAM = 48 * KIB


def beside(c: Config) -> int:
    """Bytes of the local memories beside the scratchpad, which every program has to itself."""
    return c.wgt + c.acc + c.prm + c.lut


#: Bars of every network: seconds of CPU for a compile, simulated cycles per second.
SECONDS, SPEED = 10.0, 20e6


@dataclass(frozen=True, slots=True)
class Bar:
    """What a network must reach: cycles at most (`packed`: flash counts compressed), bytes of SRAM,
    and Vela's cycles (flash, resident) and bytes of SRAM when it optimises for size."""

    name: str
    flash: int
    packed: bool
    resident: int
    sram: float
    vela: tuple[int, int, float]
    stream: int = 0
    overlap: float = 0.0


BARS = {
    "ic": Bar("ResNet-8", 88_000, False, 62_000, 20, (141_933, 107_151, 35.0), 4096, 0.9),
    "vww": Bar("VWW", 102_000, True, 72_000, 44, (161_459, 146_940, 48.0)),
    "kws": Bar("KWS", 32_000, False, 23_000, 8, (58_340, 56_222, 15.6)),
    "ad": Bar("AD", 204_000, True, 22_000, 0.75, (201_184, 40_929, 0.75)),
    "sww": Bar("SWW", 59_000, False, 8_500, 5.8, (56_979, 18_896, 5.8)),
}
BUILDS = {
    "raw": ("accel_sim.compress=off",),
    "packed": ("accel_sim.compress=auto",),
    "resident": ("accel_sim.weights=sram",),
}


@dataclass(frozen=True, slots=True)
class Program:
    """What the compiler says of one build, its commands, and seconds of CPU that it took."""

    performance: dict[str, Any]
    commands: bytes
    seconds: float

    @property
    def cycles(self) -> int:
        """Of one run."""
        return int(self.performance["cycles"])

    @property
    def sram(self) -> int:
        """Bytes of inputs, outputs and scratch in the system's memory; none share an address."""
        return sum(int(r["bytes"]) for r in self.performance["regions"][2:])

    @property
    def local(self) -> int:
        """Bytes of local memories: what the scratchpad holds, and all the others."""
        return int(self.performance["scratchpad_bytes"]) + beside(
            config(self.performance["macs_per_cycle"])
        )

    @property
    def live(self) -> int:
        """The most bytes of them that hold something needed at one time: inputs until they were
        loaded, outputs from their first store, scratch always."""
        spans: dict[int, list[int]] = {}
        for name, pc, _, _, start, end, *_ in self.performance["spans"]:
            if name in ("LD", "LDL", "ST"):
                region = int.from_bytes(self.commands[pc + 4 : pc + 8], "little") >> 29
                first = 0 if name != "ST" else start
                begun, ended = spans.get(region, [first, end])
                spans[region] = [min(begun, first), max(ended, end)]
        regions = self.performance["regions"]
        held = []
        for index in range(2, len(regions)):
            size, writable = int(regions[index]["bytes"]), regions[index]["writable"]
            begun, ended = (0, self.cycles) if index == 2 else spans[index]
            held.append((begun, self.cycles if writable else ended, size))
        return max(sum(n for a, b, n in held if a <= at < b) for at, _, _ in held)

    @property
    def overlap(self) -> float:
        """The busiest unit's cycles of all cycles."""
        layers = self.performance["layers"]
        return max(sum(layer["busy"][u] for layer in layers) for u in range(4)) / self.cycles

    @property
    def used(self) -> float:
        """Products the network needs, of those the array could do."""
        needed = sum(int(layer["macs"]) for layer in self.performance["layers"])
        return needed / (self.cycles * int(self.performance["macs_per_cycle"]))


def aotc(*words: object) -> str:
    """Standard output of the command; ends this program if it fails."""
    line = [sys.executable, "-m", "aot", *(str(w) for w in words)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(line)}\n{done.stdout}{done.stderr}")
    return done.stdout


def compiled(model: Path, out: Path, options: tuple[str, ...]) -> Program:
    """The whole network as one program."""
    words = [w for option in options for w in ("--backend-option", option)]
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    aotc(model, "-o", out, "--backend", "accel_sim", "--require-backend", *words)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    (file,) = sorted((out / "bundle" / "accel").glob("*.json"))
    return Program(json.loads(file.read_text()), file.with_suffix(".ax1").read_bytes(), seconds)


def speed(out: Path, cycles: int) -> float:
    """Simulated cycles per second of a bundle whose outputs are those of the reference."""
    subprocess.run(["cmake", "--build", out], check=True, capture_output=True)
    aotc("verify", out)
    file = out / "bench.json"
    aotc("bench", out, "--json", file)
    return cycles / (float(json.loads(file.read_text())["cpu_median_ns"]) * 1e-9)


def missed(bar: Bar, found: dict[str, Program], rate: float) -> list[str]:
    """Every bar that is missed, in words."""
    flash, resident = found["packed" if bar.packed else "raw"], found["resident"]
    worst = max(p.live for p in found.values())
    both = max(p.sram + p.local for p in found.values())
    stream = max(int(p.performance["commands_bytes"]) for p in found.values())
    overlap = min(p.overlap for p in found.values())
    seconds = max(p.seconds for p in found.values())
    checks = [
        (flash.cycles <= bar.flash, f"{flash.cycles} cycles from flash, at most {bar.flash}"),
        (resident.cycles <= bar.resident, f"{resident.cycles} resident, at most {bar.resident}"),
        (worst <= bar.sram * KIB, f"{worst / KIB:.2f} KiB of SRAM, at most {bar.sram}"),
        (
            both <= bar.vela[2] * KIB + SHRAM,
            f"{both / KIB:.1f} KiB of SRAM and local memories, "
            f"at most {bar.vela[2] + SHRAM / KIB:.1f}",
        ),
        (not bar.stream or stream <= bar.stream, f"{stream} bytes of commands"),
        (overlap >= bar.overlap, f"overlap {overlap:.3f}, at least {bar.overlap}"),
        (seconds <= SECONDS, f"{seconds:.1f} s to compile"),
        (rate >= SPEED, f"{rate / 1e6:.1f} M cycles/s simulated"),
    ]
    return [f"{bar.name}: {text}" for good, text in checks if not good]


def cycles_row(bar: Bar, found: dict[str, Program]) -> str:
    """A row of the first table."""
    raw, packed, resident = (found[k].cycles for k in BUILDS)
    first, second, _ = bar.vela
    which = " compressed" if bar.packed else ""
    return (
        f"| {bar.name} | {raw} | {packed} | {bar.flash}{which} | {first} | {resident} | "
        f"{bar.resident} | {second} | {100 * found['packed'].overlap:.1f} % | "
        f"{100 * found['resident'].overlap:.1f} % | {100 * found['packed'].used:.1f} % | "
        f"{100 * found['resident'].used:.1f} % |"
    )


def bytes_row(bar: Bar, found: dict[str, Program], rate: float) -> str:
    """A row of the second table."""
    sram, live = (max(getattr(p, key) for p in found.values()) for key in ("sram", "live"))
    spm = max(int(p.performance["scratchpad_bytes"]) for p in found.values())
    other = max(p.local for p in found.values()) - spm
    streams = "/".join(str(p.performance["commands_bytes"]) for p in found.values())
    constants = "/".join(str(found[k].performance["weights_bytes"]) for k in ("raw", "packed"))
    seconds = max(p.seconds for p in found.values())
    bound = bar.vela[2] + SHRAM / KIB
    return (
        f"| {bar.name} | {sram / KIB:.2f} | {live / KIB:.2f} | {bar.sram} | {bar.vela[2]} | "
        f"{spm / KIB:.1f} | {other / KIB:.1f} | {(sram + spm + other) / KIB:.1f} | {bound:.1f} | "
        f"{constants} | {streams} | "
        f"{seconds:.1f} | {rate / 1e6:.1f} |"
    )


HEADS = (
    "| network | raw | compressed | at most | Vela | resident | at most | Vela | overlap flash | "
    "resident | used flash | resident |\n|---|---|---|---|---|---|---|---|---|---|---|---|",
    "| network | SRAM KiB | live | at most | Vela | scratchpad KiB | other local | sum | at most | "
    "constants raw/compr. | commands raw/compr./res. | compile s | M cycles/s |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", choices=[*BARS, []], metavar="MODEL")
    a = p.parse_args()
    folder = os.environ.get("AOT_TEST_MODELS")
    if not folder:
        raise SystemExit("AOT_TEST_MODELS does not name a folder of models")
    first, second, bad = [HEADS[0]], [HEADS[1]], list[str]()
    for name in a.models or BARS:
        bar, model = BARS[name], Path(folder) / f"mlperf_{name}_int8.onnx"
        with tempfile.TemporaryDirectory(prefix="accel_") as work:
            outs = {key: Path(work) / key for key in BUILDS}
            found = {key: compiled(model, outs[key], BUILDS[key]) for key in BUILDS}
            rate = speed(outs["packed"], found["packed"].cycles)
        first.append(cycles_row(bar, found))
        second.append(bytes_row(bar, found, rate))
        bad += missed(bar, found, rate)
        print(f"{bar.name} done", file=sys.stderr, flush=True)
    verdict = "\n".join(["Bars that are missed:", "", *(f"- {b}" for b in bad)])
    print("\n".join([*first, "", *second, "", verdict if bad else "Every bar is reached."]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
