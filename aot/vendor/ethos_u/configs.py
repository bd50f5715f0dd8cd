# SPDX-License-Identifier: Apache-2.0
"""The NPUs that Vela compiles for, and the options of a user."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from aot.vendor import BackendOptions, UsageError

#: What a user types where Vela is missing.
INSTALL = "pip install 'aotc[ethos-u]'"
#: Families: the name of the architecture in Vela, the product's number in a command stream, the
#: system that estimates assume (a section of Vela's own vela.ini).
FAMILIES = {
    "u55": ("EthosU55", 0, "Ethos_U55_High_End_Embedded"),
    "u65": ("EthosU65", 1, "Ethos_U65_Embedded"),
    "u85": ("EthosU85", 2, "Ethos_U85_SYS_Flash_High"),
}
#: Multipliers of each family's configurations; those of two cores are in TWO_CORES.
MACS = {"u55": (32, 64, 128, 256), "u65": (256, 512), "u85": (128, 256, 512, 1024, 2048)}
TWO_CORES = ("u65-512",)
DEFAULT = "u55-128"


@dataclass(frozen=True, slots=True)
class Npu:
    """One configuration: `macs` multiplications per cycle of all `cores`.

    `system` and `memory` are sections of the text `ini`, which says how fast memories are; "" is
    the file that comes with Vela.
    """

    name: str
    family: str
    macs: int
    cores: int
    system: str
    memory: str = "Shared_Sram"
    ini: str = ""

    @property
    def product(self) -> int:
        """The number of the family in a command stream."""
        return FAMILIES[self.family][1]

    @property
    def log_macs(self) -> int:
        """The logarithm of `macs` to the base of 2, as command streams have it."""
        return self.macs.bit_length() - 1

    @property
    def architecture(self) -> str:
        """The name that Vela has for the NPU's family."""
        return FAMILIES[self.family][0]

    @property
    def sections(self) -> str:
        """The text of the file of systems; UsageError where Vela is missing."""
        return self.ini or vela_ini()

    def settings(self) -> str:
        """The description of NPU and system that Vela reads."""
        return (
            f"[architecture]\nmacs={self.macs // self.cores}\ncores={self.cores}\n[vela]\n"
            f"system_config_name={self.system}\nmemory_mode_name={self.memory}\n{self.sections}"
        )

    @property
    def clock(self) -> float:
        """Cycles in a second."""
        return float(self.value(f"System_Config.{self.system}", "core_clock", "500e6"))

    def value(self, section: str, key: str, otherwise: str) -> str:
        """The value of `key` in a section of the file, `otherwise` where it is not there."""
        body = self.sections.partition(f"[{section}]")[2].partition("\n[")[0]
        found = re.search(rf"^{key}\s*=\s*(\S+)", body, re.MULTILINE)
        return found[1] if found else otherwise


NAMES = {f"{family}-{n}": (family, n) for family, each in MACS.items() for n in each}


def named(name: str, ini: str = "") -> Npu:
    """The configuration `name` with the file of systems `ini`."""
    family, macs = NAMES[name]
    return Npu(name, family, macs, 1 + (name in TWO_CORES), FAMILIES[family][2], ini=ini)


@cache
def vela_ini() -> str:
    """The text of the file of systems that comes with Vela; UsageError where Vela is missing."""
    found = find_spec("ethosu")
    if found is None or not found.submodule_search_locations:
        raise UsageError("ethos_u needs Vela, which is not installed", "--backend", INSTALL)
    return (Path(next(iter(found.submodule_search_locations))) / INI).read_text("utf-8")


INI = Path("config_files", "Arm", "vela.ini")


def _choose(what: str, said: str, known: Iterable[str]) -> str:
    """`said` where it is among `known`; UsageError, with the nearest name, where it is not."""
    names = list(known)
    if said not in names:
        near = difflib.get_close_matches(said, names, 1, 0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"{what}{said} does not exist", hint=f"{hint}known: {', '.join(names)}")
    return said


def configured(said: BackendOptions) -> Npu:
    """The NPU that `--backend ethos_u:NAME` and the options `system`, `memory`, `ini` describe.

    Raises UsageError for what does not exist, and where Vela is missing.
    """
    given: Mapping[str, str] = said.options
    said.only("ethos_u", ("system", "memory", "ini"))
    name = _choose("ethos_u:", said.config or DEFAULT, NAMES)
    npu = named(name, _read(given["ini"]) if "ini" in given else vela_ini())
    system = _section(npu, "System_Config", "system", given.get("system", npu.system))
    memory = _section(npu, "Memory_Mode", "memory", given.get("memory", npu.memory))
    return replace(npu, system=system, memory=memory)


def _section(npu: Npu, kind: str, key: str, said: str) -> str:
    """The name of a section of the file of systems."""
    known = re.findall(rf"^\[{kind}\.(\w+)\]", npu.sections, re.MULTILINE)
    return _choose(f"ethos_u.{key}=", said, known)


def _read(path: str) -> str:
    """The text of the file `path`, in UTF-8; UsageError if the file cannot be read or decoded."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"ethos_u.ini={path} cannot be read: {error}") from error
