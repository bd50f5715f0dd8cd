# SPDX-License-Identifier: Apache-2.0
"""Identifiers of emitted C that stay readable: names of layers, at most 40 characters, unique.

What only one file sees has no need of the model's name in front, so that the layer's name has room:
`BUF_conv1` is memory of the arena, `CONST_conv1_w` a constant in the file of constants, `c_conv1_b`
a table in the source.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: Characters of an identifier that the model's name does not dictate.
MOST = 40
#: Words that exporters write into most names and that tell no layer from another.
_EVERYWHERE = frozenset(
    "functional model resource resource1 ReadVariableOp FusedBatchNormV3 StatefulPartitionedCall"
    " prequant".split()
)


@dataclass(slots=True)
class Names:
    """Identifiers given so far, by what they name: equal requests get equal identifiers."""

    given: dict[tuple[str, ...], str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def name(self, prefix: str, *what: str) -> str:
        """The identifier that begins with `prefix` for what is called `what[-1]`.

        The strings before the last say whose name it is, and are not part of the identifier.
        """
        key = (prefix, *what)
        if key not in self.given:
            text = shortened(what[-1], MOST - len(prefix))
            number = 1
            while prefix + text in self.taken:
                number += 1
                end = f"_{number}"
                text = shortened(what[-1], MOST - len(prefix) - len(end)) + end
            self.given[key] = prefix + text
            self.taken.add(prefix + text)
        return self.given[key]


def prefix(model: str) -> str:
    """The name of the model and `_`, "" where it is so long that layers' names had no room."""
    return f"{model}_" if len(model) <= MOST // 2 else ""


def local(model: str, rest: str) -> str:
    """`rest` behind the name of the `model` if there is room, else as much of `rest` as fits."""
    full = f"{model}_{rest}"
    return full if len(full) <= MOST else shortened(rest, MOST)


def shortened(text: str, most: int) -> str:
    """`text`, an identifier, in at most `most` characters: its end, where layers differ.

    Words that say nothing or come twice are left out first, then words from the left; a last word
    that is too long is cut.
    """
    if len(text) <= most:
        return text
    words = [w for w in text.split("_") if w and w not in _EVERYWHERE] or text.split("_")
    later = [w for k, w in enumerate(words) if w not in words[k + 1 :] or w.isdigit()]
    while len(later) > 1 and (len("_".join(later)) > most or later[0].isdigit()):
        later.pop(0)
    return "_".join(later)[-most:] or "x"
