# SPDX-License-Identifier: Apache-2.0
"""What the makers of PyTorch models share: random weights that show errors, and both exporters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

Tensors = dict[str, torch.Tensor]
DYNAMO, TORCHSCRIPT = "dynamo", "torchscript"

# A process makes one model: it has the same weights each time it is made.
torch.manual_seed(11)


def stir(model: torch.nn.Module) -> torch.nn.Module:
    """Give normalisations and layer scales random values: at their initial ones, zeros, ones and
    tiny factors hide errors of whole branches."""
    torch.manual_seed(7)
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.track_running_stats:
            module.running_mean.normal_(0, 0.05)
            module.running_var.uniform_(0.8, 1.25)
        for _name, value in module.named_parameters(recurse=False):
            small = value.ndim == 1 and value.numel() > 1 and bool((value == value[0]).all())
            if small:
                centre = float(value[0]) if abs(float(value[0])) >= 0.1 else 0.0
                value.data = centre + 0.1 * torch.randn_like(value)
    return model.eval()


def settle(model: torch.nn.Module, images: torch.Tensor) -> torch.nn.Module:
    """Normalise by the statistics of `images`: with other ones values may fade from layer to layer
    until the scores of all boxes lie within a rounding of each other."""
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.reset_running_stats()
            module.momentum = None
            module.train()
    with torch.no_grad():
        model(images)
    return model.eval()


def spread(model: torch.nn.Module, images: torch.Tensor) -> torch.nn.Module:
    """Give weights of fresh heads the size at which results on `images` vary by 1. They start so
    near 0 that scores of thousands of boxes lie within a rounding of each other, and a rounding
    decides what is kept; much larger ones make all scores 0 or 1."""
    kinds = (torch.nn.Conv2d, torch.nn.Linear)
    fresh = {m for m in model.modules() if isinstance(m, kinds) and m.weight.std() < 0.015}
    seen = set()

    def resize(module: torch.nn.Module, inputs: Any, result: torch.Tensor) -> torch.Tensor:
        if module not in seen:  # a head of several levels is sized on the first
            seen.add(module)
            module.weight.data /= result.transpose(0, 1).flatten(1).std(1).mean()
        return module.forward(*inputs)

    hooks = [module.register_forward_hook(resize) for module in fresh]
    with torch.no_grad():
        model(images)
    for hook in hooks:
        hook.remove()
    return model


def export(
    model: torch.nn.Module,
    inputs: Tensors,
    folder: Path,
    exporter: str,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    outputs: Sequence[str] = (),
    opset: int | None = None,
    sample: bool = False,
) -> None:
    """Write folder/model.onnx; `sample` writes `inputs` as inputs.npz too."""
    path, names = folder / "model.onnx", list(inputs)
    values = tuple(inputs.values())
    said: dict[str, Any] = {"input_names": names}
    if opset:
        said["opset_version"] = opset
    if outputs:
        said["output_names"] = list(outputs)
    axes = {k: dict(v) for k, v in (dynamic or {}).items()}
    with torch.no_grad():
        if exporter == DYNAMO:
            shapes = None
            if axes:
                dims = {n: torch.export.Dim.DYNAMIC for a in axes.values() for n in a.values()}
                shapes = tuple({i: dims[n] for i, n in axes.get(k, {}).items()} for k in names)
            torch.onnx.export(model, values, str(path), dynamo=True, dynamic_shapes=shapes, **said)
        else:
            torch.onnx.export(model, values, str(path), dynamo=False, dynamic_axes=axes, **said)
    if sample:
        np.savez(folder / "inputs.npz", **{k: v.numpy() for k, v in inputs.items()})


def without_shapes(folder: Path) -> None:
    """Write reference.onnx: folder/model.onnx without the shapes that bodies declare of their
    results, which the older exporter may give wrongly and onnxruntime believes."""
    model = onnx.load(folder / "model.onnx")
    graphs = [model.graph]
    for graph in graphs:
        inner = [a.g for n in graph.node for a in n.attribute if a.type == a.GRAPH]
        for value in (v for g in inner for v in g.output):
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
        graphs.extend(inner)
    onnx.save(model, folder / "reference.onnx")


class Flat(torch.nn.Module):
    """A model whose results are put flat into a tuple of tensors, and that takes inputs by name."""

    def __init__(self, model: torch.nn.Module, names: Sequence[str], **fixed: Any) -> None:
        super().__init__()
        self.model, self.names, self.fixed = model, tuple(names), fixed

    def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(flat(self.model(**dict(zip(self.names, values, strict=True)), **self.fixed)))


def flat(result: Any) -> list[torch.Tensor]:
    """The tensors of nested tuples, lists and dictionaries."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, Mapping):
        result = list(result.values())
    if isinstance(result, (tuple, list)):
        return [t for r in result for t in flat(r)]
    return []
