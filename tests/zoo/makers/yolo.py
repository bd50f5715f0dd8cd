# SPDX-License-Identifier: Apache-2.0
"""Networks of Ultralytics with random weights, with and without post-processing."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import torch
from torch_export import settle, stir


def ultralytics(
    name: str, folder: Path, config: str, nms: bool = False, size: int = 64, dynamic: bool = False
) -> None:
    import os

    from ultralytics import RTDETR, YOLO

    os.chdir(folder)
    model = (RTDETR if "rtdetr" in config else YOLO)(config)
    settle(stir(model.model), torch.rand(8, 3, size, size))
    # Scores of fresh heads lie below every threshold; these biases put some above it.
    for key, value in model.model.named_parameters():
        if ".cv3." in key and key.endswith(".2.bias"):
            value.data = -1.5 + torch.randn_like(value)
    said = {"nms": True, "conf": 0.25} if nms else {}
    path = model.export(format="onnx", imgsz=size, simplify=False, dynamic=dynamic, **said)
    shutil.move(path, folder / "model.onnx")
    torch.manual_seed(3)
    np.savez(folder / "inputs.npz", images=torch.rand(1, 3, size, size).numpy())
