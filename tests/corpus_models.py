# SPDX-License-Identifier: Apache-2.0
"""Real models to compile: the corpus folder, generated architectures, onnx's light models."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

CORPUS = (
    *("mlperf_ad_f32", "mlperf_ic_f32", "mlperf_kws_f32", "mlperf_sww_f32", "mlperf_vww_f32"),
    *("attacut_sc", "basic_pitch_nmp", "dtln_1", "magika_v3_3", "micro_kws_m_f32"),
    *("minilm_l3_v512", "oww_embedding", "oww_melspectrogram", "ppocr_v2_cls", "ppocr_v4_det"),
    *("silero_vad_16k_flat", "ultraface_rfb320", "ultraface_rfb320_nms"),
)
QUANTISED = (
    *("mlperf_ad_int8", "mlperf_ic_int8", "mlperf_kws_int8", "mlperf_sww_int8", "mlperf_vww_int8"),
    *("hello_world_int8", "micro_kws_m_qoperator", "mobilenetv2_int8"),
)
SEEDED = (
    *("mlp", "resnet18", "resnet50", "mobilenetv2", "vgg16", "squeezenet1_1", "inceptionv3"),
    *("bert_tiny", "ssd_mobilenetv2"),
)
LIGHT = (
    *("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50"),
    *("shufflenet", "squeezenet", "vgg19", "zfnet512"),
)


#: Models with dimensions left open, and ranges for them; some have samples of several sizes.
BOUNDED = {
    "attacut_sc": ("--dim", "seq_len=1..128"),
    "minilm_l3_v512": ("--dim", "batch_size=1..2", "--dim", "sequence_length=1..64"),
    "oww_melspectrogram": ("--dim", "batch_size=1", "--dim", "samples=1000..12400"),
    "slovorez_f16": ("--dim", "unk__190=1", "--dim", "unk__191=1..32"),
    "ppocr_v4_det": ("--input-shape", "x=1,3,32..320,32..640"),
    "basic_pitch_nmp": ("--dim", "unk__749=1..2"),
    "magika_v3_3": ("--dim", "unk__214=1..2"),
    "oww_embedding": ("--dim", "unk__314=1..3"),
    "ppocr_v2_cls": ("--input-shape", "x=1..2,3,48,64..192"),
    "surrogate_mlp_scaler": ("--input-shape", "input=1..5,4"),
}


@dataclass(frozen=True)
class RealModel:
    """A model file, the inputs to run it on (ONNX names), and shapes to pin."""

    name: str
    path: Path
    inputs: Path | None
    shapes: dict[str, tuple[int, ...]]

    def options(self) -> list[str]:
        """The command-line options that pin its shapes."""
        rows = []
        for name, shape in self.shapes.items():
            rows += ["--input-shape", f"{name}={','.join(map(str, shape))}"]
        return rows


def corpus(folder: Path, name: str, work: Path, every: bool = False) -> RealModel:
    """Model `name` of the corpus with its stored samples, renamed to the ONNX names.

    `every` also takes samples of other sizes than the first has, and pins nothing.
    """
    entries = json.loads((folder / "models.json").read_text())["models"]
    entry = next(e for e in entries if e["name"] == name)
    stored = np.load(folder / entry["io"])
    arrays: dict[str, np.ndarray] = {}
    shape0 = {v["name"]: stored[f"s0_in{i}"].shape for i, v in enumerate(entry["inputs"])}
    for k in range(entry["samples"]):
        feeds = {v["name"]: stored[f"s{k}_in{i}"] for i, v in enumerate(entry["inputs"])}
        if not every and {n: a.shape for n, a in feeds.items()} != shape0:
            continue  # a bundle with pinned shapes takes the first sample's sizes only
        arrays |= {f"s{k}/{n}": a for n, a in feeds.items()}
        arrays |= {
            f"s{k}/{v['name']}": stored[f"s{k}_out{i}"] for i, v in enumerate(entry["outputs"])
        }
    path = work / f"{name}.npz"
    np.savez(path, **arrays)
    shapes = shape0 if entry["dynamic_shapes"] or not entry["static_inputs_ok"] else {}
    return RealModel(name, folder / entry["file"], path, {} if every else shapes)


def seeded(folder: Path, name: str, work: Path) -> RealModel:
    """Architecture `name` with seeded weights, written by the generator beside the corpus."""
    path = work / f"{name}.onnx"
    if not path.exists():
        command = [sys.executable, folder / "make_seed_models.py", name, "-o", work]
        subprocess.run(command, check=True, capture_output=True)
    return RealModel(name, path, None, {})


def seeded_quantised(
    folder: Path, name: str, work: Path, *options: str, size: int = 96
) -> RealModel:
    """Architecture `name`, quantised by the generator with `options`."""
    script = folder / "make_seed_models.py"
    command = [sys.executable, script, name, "--int8", "--size", str(size), "-o", work, *options]
    subprocess.run(command, check=True, capture_output=True)
    return RealModel(name, work / f"{name}_int8_qdq.onnx", None, {})


def tflite_outputs(folder: Path, name: str) -> dict[str, np.ndarray]:
    """The samples of a model with the outputs of TFLite's reference kernels, by ONNX name."""
    entries = json.loads((folder / "models.json").read_text())["models"]
    entry = next(e for e in entries if e["name"] == name)
    stored = np.load(folder / entry["io"])
    source, result = entry["inputs"][0]["name"], entry["outputs"][0]["name"]
    arrays = {}
    for k in range(entry["samples"]):
        arrays[f"s{k}/{source}"] = stored[f"s{k}_in0"]
        arrays[f"s{k}/{result}"] = stored[f"s{k}_tflite_out0"]
    return arrays


def light(name: str) -> RealModel:
    """One of the nine light models inside the onnx package (weights are ConstantOfShape)."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return RealModel(f"light_{name}", folder / f"light_{name}.onnx", None, {})
