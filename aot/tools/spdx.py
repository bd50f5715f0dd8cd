# SPDX-License-Identifier: Apache-2.0
"""Bills of materials in SPDX 2.3, as JSON: the parts of a bundle or a wheel, with their licences.

hatch_build.py runs this file by itself: it imports nothing of aotc. Equal parts give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

#: What SPDX writes where nothing is claimed.
UNKNOWN = "NOASSERTION"
_TAG = re.compile(rb"SPDX-License-Identifier: *([A-Za-z0-9.+-]+)")
_DOCUMENT = "SPDXRef-DOCUMENT"


def package(name: str, version: str = "", licence: str = UNKNOWN, **more: Any) -> dict[str, Any]:
    """A package of SPDX; `more` are further fields of it by their names there."""
    return {
        "SPDXID": f"SPDXRef-{_identifier(name)}",
        "name": name,
        **({"versionInfo": version} if version else {}),
        "downloadLocation": UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": licence,
        "licenseDeclared": licence,
        "copyrightText": UNKNOWN,
        **more,
    }


def file(path: str, content: bytes, licence: str = "") -> dict[str, Any]:
    """A file of SPDX: its checksums, and the licence that its own text names, else `licence`."""
    found = _TAG.search(content[:4096])
    named = found[1].decode() if found else licence or UNKNOWN
    return {
        "SPDXID": f"SPDXRef-File-{_identifier(path)}",
        "fileName": f"./{path}",
        "checksums": [
            {"algorithm": "SHA1", "checksumValue": hashlib.sha1(content).hexdigest()},
            {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()},
        ],
        "licenseConcluded": named,
        "licenseInfoInFiles": [found[1].decode() if found else UNKNOWN],
        "copyrightText": UNKNOWN,
    }


def document(
    tool: str,
    main: dict[str, Any],
    files: Iterable[Mapping[str, Any]] = (),
    others: Iterable[tuple[str, Mapping[str, Any]]] = (),
) -> bytes:
    """The document that describes the package `main`, made by `tool` (NAME-VERSION).

    `files` are the files of `main`, `others` (relation of `main` to it, package). The date is
    SOURCE_DATE_EPOCH, without it the first second of 1970: the bytes depend on the parts alone.
    """
    listed, related = [*files], [*others]
    if listed:
        # SPDX prescribes how this code is made, SHA-1 included.
        sums = sorted(f["checksums"][0]["checksumValue"] for f in listed)
        code = hashlib.sha1("".join(sums).encode()).hexdigest()
        main |= {
            "filesAnalyzed": True,
            "packageVerificationCode": {"packageVerificationCodeValue": code},
            "licenseInfoFromFiles": sorted({s for f in listed for s in f["licenseInfoInFiles"]}),
        }
    relations = [
        (_DOCUMENT, "DESCRIBES", main["SPDXID"]),
        *((main["SPDXID"], "CONTAINS", f["SPDXID"]) for f in listed),
        *((main["SPDXID"], relation, p["SPDXID"]) for relation, p in related),
    ]
    keys = ("spdxElementId", "relationshipType", "relatedSpdxElement")
    parts = {
        "packages": [main, *(p for _, p in related)],
        "files": listed,
        "relationships": [dict(zip(keys, r, strict=True)) for r in relations],
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    second = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", second)
    head = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": _DOCUMENT,
        "name": main["name"],
        "documentNamespace": f"https://spdx.org/spdxdocs/{main['name']}-{digest}",
        "creationInfo": {"created": created, "creators": [f"Tool: {tool}"]},
    }
    return (json.dumps(head | parts, indent=1) + "\n").encode()


def _identifier(text: str) -> str:
    """`text` as a part of an SPDXID; different texts stay different."""
    plain = re.sub(r"[^A-Za-z0-9.-]", "-", text)
    return plain if plain == text else f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
