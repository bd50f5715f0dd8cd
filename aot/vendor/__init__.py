# SPDX-License-Identifier: Apache-2.0
"""The interface of vendors: all that a vendor's package imports of aotc.

A vendor is a package with a `backend`: one folder each here, found by name, or a pip package with
the entry point `aotc.backends`. docs/new-backend.md lists the names.
"""

from aot.errors import BackendError, InternalError, UnsupportedError, UsageError, one_line
from aot.ir.dtypes import BF16, F32, S8, U8, DType
from aot.ir.layout import PLAIN, Layout
from aot.vendor import images, strided_copy, tflite_layers
from aot.vendor.activations import ACTIVATIONS, Act
from aot.vendor.arguments import Handle, Operand
from aot.vendor.backend import Backend, BackendOptions, Pattern, RegionView
from aot.vendor.cases import Case, case, f32
from aot.vendor.layouts import channels_last
from aot.vendor.limits import Limits, Speed
from aot.vendor.match import Match, NodeRef, ValueRef, same_shapes
from aot.vendor.matrix_product import MatrixProduct
from aot.vendor.pattern import OP, const, either, optional, repeat, typed, wildcard
from aot.vendor.pattern_ast import Pat
from aot.vendor.qdq_guard import outside_of_quantised
from aot.vendor.quantisation import Quantisation, activated, constant_bounds, dequantised, quantised
from aot.vendor.quantised_cases import quantised_values
from aot.vendor.quantised_pair import QuantisedPair
from aot.vendor.quantised_pool import QuantisedPool
from aot.vendor.quantised_product import QuantisedProduct
from aot.vendor.quantised_softmax import QuantisedSoftmax
from aot.vendor.quantised_table import QuantisedTable
from aot.vendor.recorder import Recorder
from aot.vendor.requant import FLOAT, TFLITE, multipliers
from aot.vendor.resize import Resize
from aot.vendor.window_shape import WindowShape

__all__ = [
    "ACTIVATIONS",
    "Act",
    "BF16",
    "Backend",
    "BackendError",
    "BackendOptions",
    "Case",
    "DType",
    "F32",
    "FLOAT",
    "Handle",
    "InternalError",
    "Layout",
    "Limits",
    "Match",
    "MatrixProduct",
    "NodeRef",
    "OP",
    "Operand",
    "PLAIN",
    "Pat",
    "Pattern",
    "Quantisation",
    "QuantisedPair",
    "QuantisedPool",
    "QuantisedProduct",
    "QuantisedSoftmax",
    "QuantisedTable",
    "Recorder",
    "RegionView",
    "Resize",
    "S8",
    "Speed",
    "TFLITE",
    "U8",
    "UnsupportedError",
    "UsageError",
    "ValueRef",
    "WindowShape",
    "activated",
    "case",
    "channels_last",
    "quantised_values",
    "const",
    "constant_bounds",
    "dequantised",
    "either",
    "f32",
    "images",
    "multipliers",
    "one_line",
    "optional",
    "outside_of_quantised",
    "quantised",
    "repeat",
    "same_shapes",
    "strided_copy",
    "tflite_layers",
    "typed",
    "wildcard",
]
