# SPDX-License-Identifier: Apache-2.0
"""Small networks for what no single operator reaches: layouts, quantised values, control flow."""

from __future__ import annotations

import onnx
from onnx import parser

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'


def weights(name: str, *shape: int) -> str:
    """Text of a constant of 0.125 everywhere."""
    dims = ", ".join(map(str, shape))
    return f"""
  {name}_shape = Constant <value_ints = [{dims}]> ()
  {name} = ConstantOfShape <value = float[1] {{0.125}}> ({name}_shape)"""


def qdq(name: str, of: str, scale: float = 0.05, kind: str = "uint8", zero: int = 128) -> str:
    """Text of a QuantizeLinear and a DequantizeLinear: `of` as quantised values and back."""
    return f"""
  {name}_s = Constant <value = float {{{scale}}}> ()
  {name}_z = Constant <value = {kind} {{{zero}}}> ()
  {name}_q = QuantizeLinear ({of}, {name}_s, {name}_z)
  {name} = DequantizeLinear ({name}_q, {name}_s, {name}_z)"""


def coded(name: str, *shape: int) -> str:
    """Text of constants stored as int8 values."""
    return weights(name + "w", *shape) + qdq(name, name + "w", 0.01, "int8", 0)


CONTROL = """
control (float[4] x, int64 n, bool b) => (float[4] y, float[4] z, float[3, 4] s) {
  y = If (b) <then_branch = yes () => (float[4] p) { p = Sin (x) },
              else_branch = no () => (float[4] q) { q = Cos (x) }>
  z = Loop (n, b, x) <body = step (int64 i, bool go, float[4] v) => (bool on, float[4] w) {
        on = Identity (go)
        w = Add (v, y) }>
  k = RandomUniform <shape = [3, 4]> ()
  t, s = Scan <num_scan_inputs = 1, body = each (float[4] a, float[4] e) => (float[4] c, float[4] d)
        { c = Add (a, e)
          d = Mul (c, e) }> (x, k)
}
"""

DATA = """
data (float[5, 3] x, bool[5] keep, float[1, 6, 4] boxes, float[1, 2, 6] scores, uint32[3, 4] a,
      uint32[4, 2] b, uint64[3, 4] c, uint64[4, 2] d)
  => (float[r, 3] rows, int64[2, k] places, float[u] one, int64[u] first, int64[t] back,
      int64[u] times, int64[s, 3] kept, uint32[3, 2] e, uint64[3, 2] f) {
  rows = Compress <axis = 0> (x, keep)
  places = NonZero (x)
  one, first, back, times = Unique (x)
  most = Constant <value = int64[1] {4}> ()
  kept = NonMaxSuppression (boxes, scores, most)
  e = MatMul (a, b)
  f = MatMul (c, d)
}
"""

BLOCKS = f"""
blocks (float[2, 3, 16, 16] x) => (float[2, 40, 4, 4] y, float[2, 40, 8, 8] z) {{
{weights("w1", 20, 3, 3, 3)}{weights("w2", 20, 20, 1, 1)}{weights("w3", 40, 40, 3, 3)}
{weights("w4", 40, 1, 3, 3)}
  a = Conv <pads = [1, 1, 1, 1]> (x, w1)
  b = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)
  c = Conv (b, w2)
  d = Sigmoid (c)
  e = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (b)
  f = Concat <axis = 1> (d, e)
  s1 = Constant <value_ints = [2, 2, 20, 8, 8]> ()
  s2 = Constant <value_ints = [2, 40, 8, 8]> ()
  g = Reshape (f, s1)
  h = Transpose <perm = [0, 2, 1, 3, 4]> (g)
  i = Reshape (h, s2)
  z = Conv <pads = [1, 1, 1, 1]> (i, w3)
  y = Conv <group = 40, pads = [1, 1, 1, 1], strides = [2, 2]> (z, w4)
}}
"""

QUANTISED = f"""
quantised (uint8[1, 8, 8, 8] x) => (float[1, 6] y, float[1, 16, 4, 4] z, uint8[1, 16, 8, 8] p_q,
       int32[1, 16, 8, 8] v) {{
  q_s = Constant <value = float {{0.05}}> ()
  q_z = Constant <value = uint8 {{128}}> ()
  q = DequantizeLinear (x, q_s, q_z)
{coded("w1", 16, 8, 3, 3)}{coded("w2", 16, 1, 3, 3)}{coded("w3", 16, 16, 1, 1)}
{coded("w4", 64, 6)}
  a = Conv <pads = [1, 1, 1, 1]> (q, w1){qdq("aq", "a")}
  b = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (aq){qdq("bq", "b")}
  c = Conv <group = 16, pads = [1, 1, 1, 1]> (bq, w2){qdq("cq", "c")}
  d = Conv (cq, w3){qdq("dq", "d")}
  e = Add (dq, bq){qdq("z", "e")}
  f = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (z){qdq("fq", "f")}
  g = Flatten (fq)
  h = MatMul (g, w4){qdq("hq", "h")}
  y = Softmax (hq)
  o = Conv (aq, w3){qdq("p", "o")}
  v = Cast <to = 6> (aq_q)
}}
"""

SHORTS = f"""
shorts (int16[4, 10] x) => (int16[4, 10] y_q) {{
  x_s = Constant <value = float {{0.0003}}> ()
  x_z = Constant <value = int16 {{0}}> ()
  f = DequantizeLinear (x, x_s, x_z)
  s = Softmax (f){qdq("y", "s", 2.0**-15, "int16", 0)}
}}
"""

#: By name. `QUANTISED` is also compiled for every instruction set that integer kernels know.
NETWORKS = {
    "control": CONTROL,
    "data": DATA,
    "blocks": BLOCKS,
    "quantised": QUANTISED,
    "shorts": SHORTS,
}


def network(name: str) -> onnx.ModelProto:
    """The model of one of NETWORKS."""
    return parser.parse_model(HEAD + NETWORKS[name])
