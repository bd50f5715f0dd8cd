# SPDX-License-Identifier: Apache-2.0
"""PyTorch's modules: `aot.torch.compile(module, example_inputs)` gives a Bundle that was compared.

`pip install 'aotc[torch]'` installs PyTorch and its exporter. The dynamo exporter makes the ONNX
model: `torch.export` traces the module, `torch.onnx` translates the graph, no file is written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Unpack

from aot.api import Bundle, compile as compile_model
from aot.errors import AotError, BuildError, UsageError, VerifyError
from aot.ir.graph_nodes import Array
from aot.options import Options, Settings
from aot.tools.compare import Difference, compare
from aot.tools.run import conform, execute, open_out

try:
    import onnxscript  # noqa: F401 - what torch.onnx translates with
    import torch
except ImportError as error:
    raise BuildError(
        f"PyTorch cannot be used: {error}", hint="pip install 'aotc[torch]'"
    ) from error


def compile(
    module: torch.nn.Module,
    example_inputs: Sequence[Any],
    out: str | os.PathLike[str] | None = None,
    *,
    dynamic_shapes: Any = None,
    check: bool = True,
    target: str | None = None,
    backends: str | Sequence[str] = (),
    options: Options | None = None,
    **more: Unpack[Settings],
) -> Bundle:
    """Compile `module`, as it computes on `example_inputs`, into the folder `out`.

    `example_inputs` are the positional arguments of `module`; the bundle's inputs have their shapes
    and types. `dynamic_shapes` goes to `torch.export.export`; `dims` then pins a dimension or gives
    its range. `check` builds the bundle, runs it on the example inputs, where need be in an
    emulator, and compares each output with the module's, as `aotc verify` compares. The other
    arguments are those of `aot.compile`.

    Raises UsageError for a module in training mode, AotError if PyTorch cannot export the module,
    VerifyError if an output is not within the tolerance, and what `aot.compile` raises.
    """
    if not isinstance(example_inputs, tuple | list):
        raise UsageError("example_inputs is not a tuple of the module's arguments")
    training = [name or "the module" for name, m in module.named_modules() if m.training]
    if training:
        what = f"{training[0]} is in training mode: its results depend on the batch or on chance"
        raise UsageError(what, hint="call module.eval() first")
    model = _exported(module, tuple(example_inputs), dynamic_shapes)
    bundle = compile_model(model, out, target=target, backends=backends, options=options, **more)
    if check:
        accuracy = str(bundle.manifest["options"]["accuracy"])
        _check(bundle, module, tuple(example_inputs), accuracy)
    return bundle


def _exported(module: torch.nn.Module, inputs: tuple[Any, ...], dynamic_shapes: Any) -> Any:
    """The module as an `onnx_ir.Model`."""
    try:
        made = torch.onnx.export(
            module, inputs, dynamo=True, dynamic_shapes=dynamic_shapes, verbose=False
        )
        return made.model
    except Exception as error:  # PyTorch has no common type of its errors
        first: BaseException = error
        while first.__cause__ is not None:
            first = first.__cause__
        reason = str(first).strip().splitlines() or [type(first).__name__]
        what = f"PyTorch cannot export {type(module).__name__}: {reason[0]}"
        raise AotError(
            what, hint="torch.export.export(module, example_inputs) says more"
        ) from error


def _check(bundle: Bundle, module: torch.nn.Module, inputs: tuple[Any, ...], accuracy: str) -> None:
    """VerifyError unless the bundle's outputs are the module's, within the tolerances."""
    built = open_out(bundle.build().out)
    with torch.no_grad():
        expected = _arrays(module(*inputs))
    given = [conform(a, s) for a, s in zip(_arrays(inputs), built.inputs, strict=True)]
    found = zip(built.outputs, execute(built, given), expected, strict=True)
    differences: list[Difference] = [
        compare(spec.name, ours, theirs, spec.dtype, accuracy=accuracy)
        for spec, ours, theirs in found
    ]
    wrong = [d.text() for d in differences if not d.passed]
    if wrong:
        raise VerifyError(f"{bundle.out} does not compute what the module computes", wrong[0])


def _arrays(values: Any) -> list[Array]:
    """The tensors in nested tuples, lists and dictionaries as arrays, in the exporter's order;
    bfloat16 as raw bits."""
    leaves = torch.utils._pytree.tree_leaves(values)
    tensors = [leaf.detach().cpu() for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return [(t.view(torch.uint16) if t.dtype == torch.bfloat16 else t).numpy() for t in tensors]
