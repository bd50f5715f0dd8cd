# SPDX-License-Identifier: Apache-2.0
"""Proofs with Frama-C's EVA: small models never have undefined behaviour, whatever their inputs.

    python tests/analyse/prove.py [NAME ...]

The kernels are those of a target without vectors. Inputs are every float between -1e30 and 1e30,
or every code. A model is proven when EVA has no alarm: no access outside an object, no read of what
was never written, no overflow of a signed integer, no shift too far, no division by zero.
Infinities and NaN are no alarm: IEEE 754 defines them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from onnx import parser

from analyse.corpus import ROOT, Unit
from analyse.networks import HEAD, coded, qdq, weights

SCALAR = ROOT / "tests" / "fuzz" / "scalar.toml"
MINUTES = 10
DECODED = """  x_s = Constant <value = float {0.05}> ()
  x_z = Constant <value = int8 {0}> ()
  f = DequantizeLinear (x, x_s, x_z)"""
MODELS = {
    "gemm": f"""gemm (float[1, 4] x) => (float[1, 3] y) {{{weights("w", 4, 3)}{weights("b", 3)}
  g = Gemm (x, w, b)
  y = Relu (g) }}""",
    "conv": f"""conv (float[1, 2, 5, 5] x) => (float[1, 3, 2, 2] y) {{{weights("w", 3, 2, 3, 3)}
  c = Conv <pads = [1, 1, 1, 1]> (x, w)
  r = Relu (c)
  y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r) }}""",
    "unpadded": f"""unpadded (float[1, 2, 5, 5] x) => (float[1, 3, 2, 2] y) {{
{weights("w", 3, 2, 3, 3)}
  y = Conv <strides = [2, 2]> (x, w) }}""",
    "softmax": "softmax (float[2, 5] x) => (float[2, 5] y) { y = Softmax (x) }",
    "moves": """moves (float[2, 3] x) => (float[3, 4] y) {
  t = Transpose <perm = [1, 0]> (x)
  y = Concat <axis = 1> (t, t) }""",
    "quantised": f"""quantised (int8[1, 6] x) => (int8[1, 4] y_q) {{{coded("w", 6, 4)}
{DECODED}
  m = MatMul (f, w){qdq("y", "m", 0.05, "int8", 0)} }}""",
    "pooled": f"""pooled (int8[1, 2, 4, 4] x) => (int8[1, 2, 2, 2] y_q) {{
{DECODED}
  a = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (f){qdq("y", "a", 0.06, "int8", 0)}
}}""",
}
_FILL = {
    "float32": "((float *)in{i})[k] = Frama_C_float_interval(-1e30F, 1e30F)",
    "int8": "((signed char *)in{i})[k] = (signed char)Frama_C_interval(-128, 127)",
}
_SIZE = {"float32": 4, "int8": 1}


def program(name: str, bundle: Path) -> str:
    """C that runs the model once on any input."""
    found = json.loads((bundle / "manifest.json").read_text())
    arena = max(64, found["memory"]["arena_bytes"])
    text = [f'#include "{name}.h"', f'#include "{name}_internal.h"', '#include "__fc_builtin.h"']
    text.append(f"static float arena[{-(-arena // 4)}];")
    body = []
    for what in ("input", "output"):
        for i, t in enumerate(found[f"{what}s"]):
            kind = "float" if t["dtype"] == "float32" else "signed char"
            count = t["nbytes"] // _SIZE[t["dtype"]]
            text.append(f"static {kind} {what[:-3]}{i}[{count}];")
            if what == "input":
                fill = _FILL[t["dtype"]].format(i=i)
                body.append(f"    for (int k = 0; k < {count}; ++k) {{ {fill}; }}")
    lists = [
        f"    {const}unsigned char *{what}[] = {{"
        + ", ".join(f"(unsigned char *){what[:-1]}{i}" for i in range(len(found[f"{of}s"])))
        + "};"
        for what, of, const in (("ins", "input", "const "), ("outs", "output", ""))
    ]
    call = f"    return (int){name}_execute((unsigned char *)arena, ins, outs);"
    return "\n".join([*text, "int main(void) {", *lists, *body, call, "}", ""])


def prove(name: str, folder: Path) -> tuple[bool, str]:
    """Whether EVA has no alarm, and its words."""
    model = parser.parse_model(HEAD + MODELS[name])
    bundle = Unit(name, model, str(SCALAR)).emit(folder)
    (bundle / "prove.c").write_text(program(name, bundle))
    flags = "-std=c99 -DAOT_VLEN=1 -D__x86_64__ -Iinclude -Isrc"
    command = ["frama-c", "-eva", "-eva-precision", "3", "-eva-auto-loop-unroll", "512"]
    command += ["-warn-special-float", "none", "-machdep", "gcc_x86_64"]
    command += [f"-cpp-extra-args={flags}", f"src/{name}_run.c", "prove.c"]
    env = {**os.environ, "PWD": str(bundle)}  # where it looks for relative paths
    limit = 60 * MINUTES
    try:
        done = subprocess.run(
            command, cwd=bundle, env=env, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"no end within {MINUTES} minutes"
    said = re.findall(r"(?m)^  (\d+ alarms? generated.*|\d+ functions analyzed.*)$", done.stdout)
    alarms = re.findall(r"\[eva:alarm\] (.*\n.*)", done.stdout)
    none = any(s.startswith("0 alarms") for s in said)
    return done.returncode == 0 and none, "; ".join([*said, *alarms[:5]]) or done.stdout[-1500:]


def main(arguments: Sequence[str]) -> int:
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments or MODELS:
            good, text = prove(name, Path(folder))
            wrong += not good
            print(f"{name}: {'proven' if good else 'NOT PROVEN'}: {text}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
