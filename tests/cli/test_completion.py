# SPDX-License-Identifier: Apache-2.0
"""Shells complete the command line: bash, zsh and fish read the scripts that aotc prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from needs import need, need_module

#: What each shell does at Tab: COMP_LINE and BUFFER hold the line, the answers go to stdout.
TAB = {
    "bash": """
        source <(aotc completion bash)
        COMP_LINE=$LINE_TYPED COMP_POINT=${#LINE_TYPED} COMP_TYPE=9 COMP_WORDBREAKS=' ='
        COMP_WORDS=($LINE_TYPED) COMP_CWORD=9
        _python_argcomplete aotc
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "zsh": """
        compdef() { : }; _describe() { printf "%s\\n" $completions }; autoload -Uz is-at-least
        source <(aotc completion zsh)
        BUFFER=$LINE_TYPED CURSOR=${#LINE_TYPED} words=(aotc)
        _python_argcomplete
    """,
    "fish": """
        aotc completion fish | source
        complete -C "$LINE_TYPED"
    """,
}


def completed(shell: str, line: str) -> set[str]:
    """The words that a shell offers behind `line`."""
    need(shell)
    need_module("argcomplete")
    folder = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "LINE_TYPED": line}
    command = [shell, "-c", TAB[shell]]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {
        word
        for text in done.stdout.splitlines()
        if (word := text.split("\t")[0].split(":")[0].strip())
    }


@pytest.mark.parametrize("shell", TAB)
def test_a_shell_completes_options_and_values(shell: str) -> None:
    assert "--per-node" in completed(shell, "aotc verify --per-n")
    assert {"cortex-m4", "cortex-m7"} <= completed(shell, "aotc m.onnx --target cortex-m")


def test_the_first_word_is_a_subcommand_or_a_file(tmp_path: Path) -> None:
    assert completed("bash", "aotc disa") == {"disasm"}
