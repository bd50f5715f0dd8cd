# SPDX-License-Identifier: Apache-2.0
"""`aotc link`: several models that share one arena."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.errors import shell_word
from aot.tools.link import link


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    out = Path(args.output)
    found = link([Path(o) for o in args.outs], out, args.name, not args.no_configure)
    memory, models = found["memory"], found["models"]
    alone = sum(m["arena_alone"] for m in models)
    saved = sum(m["shared_constants_bytes"] for m in models)
    text = f"{found['name']}: {len(models)} models, arena {memory['arena_bytes']} bytes instead of "
    text += f"{alone}, constants {memory['constants_bytes']} bytes, {saved} of them shared"
    after = f"wrote {out}/bundle" if args.no_configure else f"cmake --build {shell_word(out)}"
    return Answer(found, f"{text}\n{after}")
