# SPDX-License-Identifier: Apache-2.0
"""The one import rule: a folder of `aot` imports only folders before it (ARCHITECTURE.md).

Imports in functions, for annotations and by `importlib` count like any other.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import aot.vendor
import house
import vendor_names

#: The rooms in the order of the pipeline; `vendor` is the contract, `vendors` the vendors' folders.
ORDER = (
    "errors version npz textfile options target packing ir shapes load normalise vendor partition "
    "lower ops aotc_extras vendors plan emit_c tools pipeline api torch aot cli __main__"
).split()
#: The parts of aot/vendor that find and make vendors: they stand where the vendors' folders stand.
FINDERS = ("find", "scaffold")
NAME = re.compile(r"aot(\.\w+)+")


def room(module: str) -> str:
    """Where a module of `aot` stands in ORDER."""
    parts = module.split(".")
    if parts[0] == "aotc_extras":
        return parts[0]
    if parts[:2] == ["aot", "vendor"] and len(parts) > 2:
        folder = (house.ROOT / "aot" / "vendor" / parts[2]).is_dir()
        return "vendors" if folder or parts[2] in FINDERS else "vendor"
    return parts[1] if len(parts) > 1 else "aot"


def by_name(tree: ast.AST) -> list[str]:
    """Modules that a file imports by a text: `import_module("aot.ops.conv")`."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name not in ("import_module", "__import__", "find_spec", "resolve_name"):
            continue
        text = node.args[0]
        if isinstance(text, ast.JoinedStr):
            text = text.values[0]
        if isinstance(text, ast.Constant) and NAME.match(str(text.value)):
            found.append(str(text.value).rstrip("."))
    return found


def against_the_order(root: Path) -> list[str]:
    """One sentence for every import of a later folder in the checkout `root`."""
    known = house.modules(root)
    files = {file: module for module, file in known.items()}
    wrong = []
    for file, module in sorted(files.items()):
        tree = ast.parse((root / file).read_text())
        names = set(by_name(tree))
        for found, _ in house.imports(tree):
            modules = {n for n in found if n in known}
            names |= modules - {"aot"} or modules  # `from aot import textfile` asks for that file
        for name in sorted(names):
            here, there = room(module), room(name)
            if ORDER.index(there) > ORDER.index(here):
                wrong.append(f"{file} imports {name}: {here} stands before {there}")
    return wrong


def past_the_interface(root: Path, vendor: Path, package: str) -> list[str]:
    """One sentence for every import of `aot` in the folder `vendor` but of the interface.

    The vendor is the Python package `package`; its own modules it may import.
    """
    wrong = []
    for path in sorted(p for p in vendor.rglob("*") if p.name.endswith((".py", ".py.txt"))):
        tree = ast.parse(path.read_text())
        names = by_name(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names += [a.name for a in node.names]
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                interface = module == "aot.vendor"
                names += [f"{module}.{a.name}" for a in node.names] if interface else [module]
        offered = {f"aot.vendor.{name}" for name in aot.vendor.__all__}
        for name in sorted(set(names) - offered):
            own = f"{name}.".startswith(f"{package}.")
            if not own and (name.startswith(".") or name.split(".")[0] == "aot"):
                file = path.relative_to(root).as_posix()
                rule = "a vendor imports names of aot.vendor.__all__ and its own modules"
                wrong.append(f"{file} imports {name}: {rule}")
    return wrong


VENDORS = {
    "aot/vendor/accel_sim": "aot.vendor.accel_sim",
    "aot/vendor/acl": "aot.vendor.acl",
    "aot/vendor/cblas": "aot.vendor.cblas",
    "aot/vendor/cmsis_nn": "aot.vendor.cmsis_nn",
    "aot/vendor/cudnn": "aot.vendor.cudnn",
    "aot/vendor/dnnl": "aot.vendor.dnnl",
    "aot/vendor/esp_nn": "aot.vendor.esp_nn",
    "aot/vendor/ethos_u": "aot.vendor.ethos_u",
    "aot/vendor/ort": "aot.vendor.ort",
    "aot/vendor/xnnpack": "aot.vendor.xnnpack",
    "aot/vendor/template/acme": "acme",
    "examples/vendor_csource/csource": "csource",
    "examples/vendor_device/mockdev": "mockdev",
    "tests/vendor/stackchip": "stackchip",
}


def test_vendors_import_only_their_interface() -> None:
    folders = {p.parent.as_posix() for p in (house.ROOT / "aot" / "vendor").glob("*/__init__.py")}
    assert folders <= {(house.ROOT / folder).as_posix() for folder in VENDORS}
    for folder, package in VENDORS.items():
        assert not past_the_interface(house.ROOT, house.ROOT / folder, package)


def test_an_import_past_the_interface_is_named(tmp_path: Path) -> None:
    """Each of five spellings is named with its file and the rule; own modules are not."""
    rule = "a vendor imports names of aot.vendor.__all__ and its own modules"
    for text, name in (
        ("from aot.ops.conv import conv\n", "aot.ops.conv"),
        ("def f():\n    import aot.vendor.quantisation\n", "aot.vendor.quantisation"),
        ("from aot.vendor import quantisation\n", "aot.vendor.quantisation"),
        ("from .. import codes\n", ".."),
        ("import importlib\nimportlib.import_module('aot.ir.dtypes')\n", "aot.ir.dtypes"),
    ):
        folder = tmp_path / "acme"
        folder.mkdir(exist_ok=True)
        (folder / "first.py").write_text(f"from acme.second import x\n{text}")
        found = past_the_interface(tmp_path, folder, "acme")
        assert found == [f"acme/first.py imports {name}: {rule}"]


def test_the_interface_of_vendors_is_small_and_documented() -> None:
    """At most 60 names, each with a sentence, none of an operator's or a later folder."""
    names = aot.vendor.__all__
    assert len(names) == len(set(names)) <= 60
    assert [name for name in names if not vendor_names.summary(name)] == []
    known = house.modules(house.ROOT)
    for name, _ in house.imports(ast.parse((house.ROOT / "aot/vendor/__init__.py").read_text())):
        rooms = {room(module) for module in name if module in known} - {"aot"}
        assert rooms <= {"errors", "ir", "vendor"}, f"aot/vendor/__init__.py offers {name}"


def test_folders_import_only_folders_before_them() -> None:
    assert not against_the_order(house.ROOT)


def test_no_file_imports_in_a_circle() -> None:
    assert not house.circles(house.measure(house.ROOT).imports)


def test_every_kind_of_import_is_seen(tmp_path: Path) -> None:
    """Each of four spellings of one forbidden import is named with its file and the rule."""
    spellings = (
        "from aot.plan import schedule\n",
        "def f():\n    import aot.plan.schedule\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from aot.plan import schedule\n",
        "import importlib\nimportlib.import_module('aot.plan.schedule')\n",
    )
    for text in spellings:
        for name, content in (("aot/ir/first.py", text), ("aot/plan/schedule.py", "s = 1\n")):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(content)
        assert against_the_order(tmp_path) == [
            "aot/ir/first.py imports aot.plan.schedule: ir stands before plan"
        ]
