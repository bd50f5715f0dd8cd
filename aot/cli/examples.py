# SPDX-License-Identifier: Apache-2.0
"""Examples of every subcommand."""

from __future__ import annotations

#: How a subcommand, or "" for a compilation, is called; `aotc NAME --help` ends with it.
EXAMPLES = {
    "": """\
  aotc model.onnx -o out && cmake --build out
  aotc model.onnx -o out --target cortex-m4 --ram 64K --flash 512K
  aotc model.onnx -o out --dim N=1..64 --backend dnnl
""",
    "init": "  aotc init hello\n  aotc init hello --model model.onnx --dim batch=1\n",
    "build": "  aotc build && ctest --test-dir out\n  aotc build hello --jobs 4\n",
    "completion": """\
  aotc completion bash > ~/.local/share/bash-completion/completions/aotc
  aotc completion zsh > ~/.zfunc/_aotc   # with fpath+=~/.zfunc before compinit
  aotc completion fish > ~/.config/fish/completions/aotc.fish
""",
    "run": "  aotc run out --inputs in.npz --outputs out.npz\n",
    "verify": "  aotc verify out\n  aotc verify out --inputs samples.npz --per-node\n",
    "bench": "  aotc bench out --per-node --json costs.json\n",
    "explain": "  aotc explain model.onnx --backend dnnl\n"
    "  aotc explain --unsupported model.onnx\n",
    "partition": "  aotc partition model.onnx --backend dnnl -o parts.onnx\n",
    "report": "  aotc report out -o page.html --bench costs.json\n",
    "sbom": "  aotc sbom out -o digits.spdx.json\n",
    "diff": "  aotc diff before after\n  aotc diff before after --exit-code -o changes.html\n",
    "link": "  aotc link out/words out/digits -o out/both && cmake --build out/both\n",
    "disasm": "  aotc disasm out\n",
    "tune": "  aotc tune model.onnx --backend dnnl -o costs.json\n",
    "inspect": "  aotc inspect model.onnx\n",
    "size": "  aotc size out --per-node\n  aotc size model.onnx --target cortex-m4\n",
    "quantize": "  aotc quantize model.onnx --calibrate samples.npz -o int8.onnx\n",
    "doctor": "  aotc doctor\n",
    "targets": "  aotc targets\n",
    "backends": "  aotc backends\n",
    "new-backend": "  aotc new-backend acme -o acme\n",
    "ops": "  aotc ops\n",
}
