# SPDX-License-Identifier: Apache-2.0
"""Models of torchvision and timm with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torchvision
from torch_export import TORCHSCRIPT, Flat, export, settle, spread, stir, without_shapes


def _image(size: int) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.rand(1, 3, size, size)


def classifier(
    name: str, folder: Path, exporter: str = TORCHSCRIPT, size: int = 64, batch: bool = True,
    builder: str = "", **options: Any,
) -> None:  # fmt: skip
    """A classifier of torchvision; its batch is open."""
    if name == "inception_v3" or name == "googlenet":
        options |= {"aux_logits": False, "init_weights": False}
    model = stir(torchvision.models.get_model(builder or name, weights=None, **options))
    axes = {"image": {0: "batch"}} if batch else None
    export(model, {"image": _image(size)}, folder, exporter, axes)


def segmenter(name: str, folder: Path, exporter: str = TORCHSCRIPT, size: int = 64) -> None:
    model = torchvision.models.get_model(name, weights=None, weights_backbone=None)
    export(Flat(stir(model), ["x"]), {"image": _image(size)}, folder, exporter)


def video(
    name: str, folder: Path, exporter: str = TORCHSCRIPT, frames: int = 8, size: int = 64,
    stale: bool = False,
) -> None:  # fmt: skip
    """A classifier of videos; `stale`: onnxruntime needs a copy without the shapes of branches."""
    model = stir(torchvision.models.get_model(name, weights=None))
    torch.manual_seed(3)
    export(model, {"video": torch.rand(1, 3, frames, size, size)}, folder, exporter)
    if stale:
        without_shapes(folder)


class Flow(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.model(a, b, num_flow_updates=2)[-1]


def flow(name: str, folder: Path, exporter: str = TORCHSCRIPT, size: int = 128) -> None:
    model = stir(torchvision.models.get_model(name, weights=None))
    a, b = _image(size), _image(size).flip(3)
    export(Flow(model).eval(), {"a": a, "b": b}, folder, exporter, sample=True)


class Detector(torch.nn.Module):
    """Boxes, scores … of the one image, as torchvision's own example of export has them."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self.model([image])[0].values())


def detector(
    name: str, folder: Path, exporter: str = TORCHSCRIPT, size: int = 160, thresholds: str = "",
    least: int = 160, score: float = 0.005,
) -> None:  # fmt: skip
    """A detector of torchvision on an image of `size`; thresholds are low, so that random weights
    find something."""
    said: dict[str, Any] = {"min_size": least, "max_size": 2 * least} if least else {}
    if thresholds:
        said[thresholds] = score
    model = torchvision.models.get_model(name, weights=None, weights_backbone=None, **said)
    images = torch.rand(4, 3, size, size)
    spread(settle(stir(model), images), images)
    image = {"image": torch.rand(3, size, size)}
    export(Detector(model), image, folder, exporter, sample=True)


def timm_model(name: str, folder: Path, exporter: str = TORCHSCRIPT, size: int = 64) -> None:
    """An architecture of timm, at `size` if it takes that, else at the size it was made for."""
    import timm

    for said in ({"img_size": size}, {}):
        for side in (size, timm.create_model(name).default_cfg["input_size"][-1]):
            try:
                model = stir(timm.create_model(name, pretrained=False, **said))
                with torch.no_grad():
                    model(_image(side))
            except (TypeError, ValueError, RuntimeError, AssertionError):
                continue  # it does not take the option, or not this size
            export(model, {"image": _image(side)}, folder, exporter, {"image": {0: "batch"}})
            return
    raise ValueError(f"{name} takes no size that is tried")
