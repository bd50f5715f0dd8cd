# SPDX-License-Identifier: Apache-2.0
"""`aotc sbom OUT`: the bill of materials of a bundle."""

from __future__ import annotations

from pathlib import Path

from aot.errors import AotError
from aot.tools.build import RECORD, read_json
from aot.tools.record import refuse_changed
from aot.tools.run import Built
from aot.tools.spdx import UNKNOWN, document, file, package
from aot.version import __version__

#: The licence of what aotc emits. Files of constants have the model's, which nobody told us.
_EMITTED = "MIT-0"


def sbom(built: Built) -> bytes:
    """The bundle's files with their checksums and licences, its model, aotc, and its libraries.

    Raises AotError for a bundle that is not as aotc wrote it.
    """
    refuse_changed(built.out)
    folder, record = built.out / "bundle", built.out / RECORD
    known = read_json(record, "record of a compilation") if record.is_file() else {}
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    try:
        files = [_file(p.relative_to(folder).as_posix(), p.read_bytes()) for p in paths]
    except OSError as error:
        raise AotError(f"a file of the bundle cannot be read: {error}") from None
    digest = str(known.get("sha256") or "")
    # A model that was compiled from memory has no file with a checksum.
    sums = [{"algorithm": "SHA256", "checksumValue": digest}] if digest else []
    model = package(Path(str(known.get("model") or f"{built.name}.onnx")).name, checksums=sums)
    aotc = package("aotc", str(built.manifest["aotc"]), "Apache-2.0")
    libraries = [package(str(n)) for n in built.manifest.get("libraries", ())]
    return document(
        f"aotc-{__version__}",
        package(f"{built.name}-bundle", digest[:16], UNKNOWN),
        files,
        [
            ("GENERATED_FROM", model),
            ("OTHER", {**aotc, "comment": "The compiler that wrote the bundle."}),
            *(("DEPENDS_ON", library) for library in libraries),
        ],
    )


def _file(path: str, content: bytes) -> dict[str, object]:
    """A file of the bundle; files without a licence in them are emitted, but for constants."""
    return file(path, content, "" if path.endswith(".bin") else _EMITTED)
