# SPDX-License-Identifier: Apache-2.0
"""Models of transformers with small configurations and random weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import transformers
from torch_export import TORCHSCRIPT, Flat, export, settle, stir

# The same small sizes for every architecture: a configuration takes the names that it has.
_NAMES = {
    32: "hidden_size d_model n_embd dim embedding_size embed_dim word_embed_proj_dim",
    2: "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers "
    "num_decoder_layers num_key_value_heads eos_token_id",
    4: "num_attention_heads num_heads n_head n_heads encoder_attention_heads "
    "decoder_attention_heads",
    64: "intermediate_size encoder_ffn_dim decoder_ffn_dim ffn_dim d_ff hidden_dim "
    "max_position_embeddings n_positions",
    8: "d_kv head_dim rotary_dim",
    99: "vocab_size",
    0: "pad_token_id",
    1: "bos_token_id",
}
NOTHING: Mapping[str, Any] = MappingProxyType({})
SMALL = {name: size for size, names in _NAMES.items() for name in names.split()}


def _model(name: str, kind: str, config: Mapping[str, Any]) -> torch.nn.Module:
    made = transformers.AutoConfig.for_model(name, **config)
    if not config:
        for key, value in SMALL.items():
            if hasattr(made, key):
                with suppress(RuntimeError, AttributeError):  # it stands for several others
                    setattr(made, key, value)
    made._attn_implementation = "eager"
    made.architectures = made.architectures or []
    torch.manual_seed(11)
    return stir(getattr(transformers, kind).from_config(made))


def _ids(batch: int, length: int) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.randint(3, 90, (batch, length))


def text(
    name: str, folder: Path, kind: str = "AutoModel", type: str = "",
    config: Mapping[str, Any] = NOTHING,
    exporter: str = TORCHSCRIPT, mask: bool = True, length: int = 16,
) -> None:  # fmt: skip
    """An encoder or decoder of tokens, batch and sequence open."""
    model = _model(type or name, kind, config)
    inputs = {"input_ids": _ids(2, length)}
    if mask:
        inputs["attention_mask"] = torch.ones(2, length, dtype=torch.int64)
        inputs["attention_mask"][1, length - 4 :] = 0
    axes = {k: {0: "batch", 1: "sequence"} for k in inputs}
    fixed = {"return_dict": True} | (
        {"use_cache": False} if hasattr(model.config, "use_cache") else {}
    )
    first = Flat(model, list(inputs), **fixed)
    export(_First(first), inputs, folder, exporter, axes, ["result"], sample=True)


class _First(torch.nn.Module):
    def __init__(self, model: torch.nn.Module, count: int = 1) -> None:
        super().__init__()
        self.model, self.count = model, count

    def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.model(*values)[: self.count]


def translator(
    name: str, folder: Path, kind: str = "AutoModelForSeq2SeqLM", type: str = "",
    config: Mapping[str, Any] = NOTHING, exporter: str = TORCHSCRIPT,
) -> None:  # fmt: skip
    """Encoder and decoder of tokens in one graph, without cache."""
    model = _model(type or name, kind, config)
    inputs = {"input_ids": _ids(1, 12), "decoder_input_ids": _ids(1, 7)}
    axes = {"input_ids": {1: "source"}, "decoder_input_ids": {1: "target"}}
    flat = Flat(model, list(inputs), use_cache=False, return_dict=True)
    export(_First(flat), inputs, folder, exporter, axes, ["logits"], sample=True)


def image(
    name: str, folder: Path, kind: str = "AutoModel", type: str = "",
    config: Mapping[str, Any] = NOTHING,
    exporter: str = TORCHSCRIPT, size: int = 64, results: int = 1, settled: bool = False,
) -> None:  # fmt: skip
    """A network of images, its batch open with the older exporter; `settled` by statistics of some,
    where the network takes the best of many places."""
    model = _model(type or name, kind, config)
    torch.manual_seed(3)
    if settled:
        settle(model, torch.rand(8, 3, size, size))
    inputs = {"pixel_values": torch.rand(1, 3, size, size)}
    axes = {"pixel_values": {0: "batch"}} if exporter == TORCHSCRIPT else None
    flat = Flat(model, list(inputs), return_dict=True)
    export(_First(flat, results), inputs, folder, exporter, axes)


def audio(
    name: str, folder: Path, kind: str = "AutoModel", type: str = "",
    config: Mapping[str, Any] = NOTHING,
    exporter: str = TORCHSCRIPT, feature: str = "input_values", shape: Sequence[int] = (1, 4000),
    decoder: bool = False,
) -> None:  # fmt: skip
    """A network of samples or of features of sound."""
    model = _model(type or name, kind, config)
    torch.manual_seed(3)
    inputs = {feature: torch.randn(*shape)}
    if decoder:
        inputs["decoder_input_ids"] = _ids(1, 5)
    fixed = {"use_cache": False} if decoder else {}
    flat = Flat(model, list(inputs), return_dict=True, **fixed)
    export(_First(flat), inputs, folder, exporter, {}, ["result"], sample=True)


def two_towers(
    name: str, folder: Path, type: str = "", config: Mapping[str, Any] = NOTHING, size: int = 64,
    exporter: str = TORCHSCRIPT,
) -> None:  # fmt: skip
    """Text and image: CLIP and its kin."""
    model = _model(type or name, "AutoModel", config)
    torch.manual_seed(3)
    inputs = {"input_ids": _ids(2, 12), "pixel_values": torch.rand(1, 3, size, size)}
    inputs["attention_mask"] = torch.ones(2, 12, dtype=torch.int64)
    flat = Flat(model, list(inputs), return_dict=True)
    export(_First(flat, 2), inputs, folder, exporter, {}, sample=True)
