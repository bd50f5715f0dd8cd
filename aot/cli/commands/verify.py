# SPDX-License-Identifier: Apache-2.0
"""`aotc verify`: a built bundle against a reference."""

from __future__ import annotations

import argparse
from pathlib import Path
from xml.etree import ElementTree

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.errors import one_line
from aot.npz import write_bytes
from aot.tools.compare import Tolerance
from aot.tools.run import open_out
from aot.tools.verify import Report, Request, verify


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    built = open_out(Path(args.out))
    request = Request(
        inputs=None if args.inputs is None else Path(args.inputs),
        reference=args.reference,
        per_node=args.per_node,
        per_region=args.per_region,
        model=None if args.model is None else Path(args.model),
        tolerance=Tolerance(args.rtol, args.atol_of_max, lsb=args.max_lsb),
    )
    report = verify(built, request, progress)
    if args.junit:
        write_bytes(Path(args.junit), junit(report))
    failure = "" if report.passed else report.failure()
    return Answer(report.record(), report.text(args.verbose), failure)


def junit(report: Report) -> bytes:
    """The comparisons as JUnit's XML, a test each."""
    every = report.every()
    wrong = sum(not d.passed for d in every)
    counts = {"tests": str(len(every)), "failures": str(wrong), "errors": "0"}
    suite = ElementTree.Element("testsuite", {"name": f"aotc verify {report.name}", **counts})
    for difference in every:
        names = {"classname": report.name, "name": one_line(difference.name)}
        case = ElementTree.SubElement(suite, "testcase", names)
        if not difference.passed:
            message = {"message": difference.reason}
            ElementTree.SubElement(case, "failure", message).text = difference.text()
    return ElementTree.tostring(suite, encoding="unicode").encode()
