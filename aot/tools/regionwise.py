# SPDX-License-Identifier: Apache-2.0
"""Region by region: what a vendor computes against what portable C computes in its place.

The same bundle is built a second time, in OUT/portable, with every vendor left out. Both trace
programs dump what leaves each region.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from aot.errors import UnsupportedError, shell_word
from aot.ir.graph_nodes import Array
from aot.target import load_target
from aot.tools.build import build, cache_value, configure, find_tools, scratch
from aot.tools.compare import Difference, Tolerance, compare
from aot.tools.layerwise import QUANTISED, Key, chained, dumped, stored_array
from aot.tools.run import Built, Spec, execute

#: The folder in OUT where the bundle is built without its vendors.
FOLDER = "portable"
#: Values inside a network are compared at this many times the tolerance of its outputs.
INSIDE = 10.0
#: What CMake takes for false, besides an empty value.
_FALSE = ("OFF", "0", "NO", "FALSE", "N", "IGNORE", "NOTFOUND")


def check_regions(built: Built) -> None:
    """Raise UnsupportedError unless there are regions, which OUT builds with the vendors' code and
    portable C can stand in for.
    """
    regions = built.manifest.get("regions", [])
    if not regions:
        raise UnsupportedError(
            f"{built.name} has no regions",
            hint="compile it with --backend; `aotc backends` lists the vendors",
        )
    for region in regions:
        if not region.get("portable"):
            why = region.get("why_not") or "this bundle has no fallback of it"
            raise UnsupportedError(f"region {region['region']} ({region['backend']}): {why}")
        out = shell_word(built.out)
        # The user may have configured OUT by hand, which the manifest does not know.
        option = f"AOT_{region['backend'].upper()}"
        if cache_value(built.out, option).upper() in _FALSE:
            raise UnsupportedError(
                f"{built.out} is built without {region['backend']} (-D{option}=OFF)",
                hint=f"`cmake -D{option}=ON {out} && cmake --build {out}`",
            )


def build_portable(built: Built, target_file: str) -> Built:
    """The same bundle in OUT/portable, built without every vendor, with its trace program."""
    check_regions(built)
    target = load_target(target_file)
    folder = built.out / FOLDER
    folder.mkdir(exist_ok=True)
    vendors = dict.fromkeys(str(r["backend"]) for r in built.manifest["regions"])
    off = [f"-DAOT_{v.upper()}=OFF" for v in vendors]
    # With the programs of OUT itself, a difference can only come from the vendor.
    programs = ("CMAKE_C_COMPILER", "CMAKE_AR", "CMAKE_RANLIB") if target.native() else ()
    same = [f"-D{name}={cache_value(built.out, name)}" for name in programs]
    toolchain = built.out / "bundle" / "cmake" / "toolchain.cmake"
    configure(
        folder,
        find_tools(target.packages, target.compiler),
        None if target.native() else toolchain,
        built.out / "bundle",
        [*off, *same],
    )
    build(folder, f"{built.name}-trace")
    return Built(folder, built.manifest)


def region_values(manifest: Mapping[str, Any]) -> dict[Key, tuple[str, Mapping[str, Any]]]:
    """(call, written argument) of what leaves a region → (name to show, its record)."""
    found: dict[Key, tuple[str, Mapping[str, Any]]] = {}
    for region in manifest.get("regions", []):
        for call in region["calls"]:
            for k, wrote in enumerate(manifest["nodes"][call].get("writes", ())):
                if wrote["tensor"] in region.get("leaves", ()) and wrote["last"]:
                    name = wrote["value"] or wrote["tensor"]
                    label = f"region {region['region']} ({region['backend']}): {name}"
                    found[call, k] = label, wrote
    return found


def compare_regions(
    vendor: Built,
    portable: Built,
    arrays: Sequence[Array],
    tolerance: Tolerance,
    accuracy: str,
) -> list[Difference]:
    """What leaves each region, computed by the vendor and by portable C.

    Quantised values that a chain of layers makes may be some steps apart, for one that rounds the
    other way moves those behind it: unless `--max-lsb` says how many, `chained` is the gate.
    """

    values = region_values(vendor.manifest)
    dumps = [_dump(b, arrays, values) for b in (vendor, portable)]
    loose = replace(tolerance, slack=INSIDE, lsb=tolerance.lsb or 1)
    regions = vendor.manifest["regions"]
    alone = {r["calls"][0] for r in regions if len(r["calls"]) == 1 and not r.get("body")}
    found = []
    for key, (label, wrote) in values.items():
        spec = Spec(label, tuple(wrote["shape"]), str(wrote["dtype"]))
        ours, theirs = (stored_array(d[key], spec, wrote["layout"]) for d in dumps)
        one = compare(label, ours, theirs, spec.dtype, loose, accuracy)
        several = spec.dtype in QUANTISED and tolerance.lsb is None and key[0] not in alone
        found.append(chained(one, ours, theirs) if several else one)
    return found


def _dump(
    built: Built, arrays: Sequence[Array], values: Mapping[Key, tuple[str, Mapping[str, Any]]]
) -> dict[Key, bytes]:
    """The bytes of `values` after a run."""
    with scratch(built.out) as folder:
        execute(built, arrays, Path(folder))
        return {k: f.read_bytes() for k, f in dumped(Path(folder)) if k in values}
