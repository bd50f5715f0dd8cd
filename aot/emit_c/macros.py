# SPDX-License-Identifier: Apache-2.0
"""The macros around calls: what a status does, and what the trace build adds."""

from __future__ import annotations

from aot.emit_c import ctext


def trace_macros(name: str, defines: bool, failed: str = "", sliced: bool = False) -> str:
    """STEP, TRY and REGION; traced unless `name` is "". One file `defines` what the trace sets.

    `failed` is a vendor's function that TRY_SAYING tells of errors; with `sliced` there is ROWS,
    for some rows of the `count` rows of a call.
    """
    own = f"#define {name.upper()}_TRACE_HERE\n" if defines else ""
    test = f'#ifdef AOT_TRACE\n{own}#include "{name}_trace.h"\n#else' if name else "#if 1"
    text = f"""\
{test}
#define BEFORE(index) ((void)0)
#define AFTER(index) ((void)0)
#endif
"""
    calls = [("STEP(index, call)", _STEP), ("TRY(index, call)", _TRY), ("REGION(call)", _REGION)]
    if sliced:
        calls.append(("ROWS(index, count, call)", _ROWS))
    if failed:
        told = f"        if (status_ != AOT_OK) {{\n            {failed}(node_##NODE, status_);"
        # Made from the bodies of the others by one more statement, so that all of them stay alike.
        for head, body in (("TRY_SAYING(index, call)", _TRY), ("SAYING(node, call)", _REGION)):
            node = told.replace("NODE", head.partition("(")[2].partition(",")[0])
            calls.append((head, body.replace("        if (status_ != AOT_OK) {", node)))
    return text + "".join(_macro(head, body) for head, body in calls)


def _macro(head: str, body: str) -> str:
    """The definition of a macro of several lines, with the backslashes in the last column."""
    return "\n".join(ctext.continued([f"#define {head}", *body.splitlines()])) + "\n"


_STEP = """\
    do {
        BEFORE(index);
        call;
        AFTER(index);
    } while (0)"""
_ROWS = """\
    do {
        if (first == 0) {
            BEFORE(index);
        }
        call;
        if (end == (count)) {
            AFTER(index);
        }
    } while (0)"""
_TRY = """\
    do {
        aot_status status_;
        BEFORE(index);
        status_ = call;
        if (status_ != AOT_OK) {
            return status_;
        }
        AFTER(index);
    } while (0)"""
_REGION = """\
    do {
        const aot_status status_ = call;
        if (status_ != AOT_OK) {
            return status_;
        }
    } while (0)"""
