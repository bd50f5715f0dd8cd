# SPDX-License-Identifier: Apache-2.0
"""The macros around calls: what a status does, and what the trace build adds."""

from __future__ import annotations


def trace_macros(name: str, defines: bool, failed: str = "") -> str:
    """STEP, TRY and REGION; traced unless `name` is "". One file `defines` what the trace sets.

    `failed` is a vendor's function that TRY_SAYING tells of errors.
    """
    own = f"#define {name.upper()}_TRACE_HERE\n" if defines else ""
    saying = _SAYING.replace("FAILED", failed) if failed else ""
    test = f'#ifdef AOT_TRACE\n{own}#include "{name}_trace.h"\n#else' if name else "#if 1"
    return f"""\
{test}
#define BEFORE(index) ((void)0)
#define AFTER(index) ((void)0)
#endif
#define STEP(index, call) \\
    do {{ BEFORE(index); call; AFTER(index); }} while (0)
#define TRY(index, call) \\
    do {{ \\
        aot_status status_; \\
        BEFORE(index); \\
        status_ = call; \\
        if (status_ != AOT_OK) {{ \\
            return status_; \\
        }} \\
        AFTER(index); \\
    }} while (0)
#define REGION(call) \\
    do {{ \\
        const aot_status status_ = call; \\
        if (status_ != AOT_OK) {{ \\
            return status_; \\
        }} \\
    }} while (0)
{saying}"""


_SAYING = """\
#define TRY_SAYING(index, node, call) \\
    do { \\
        aot_status status_; \\
        BEFORE(index); \\
        status_ = call; \\
        if (status_ != AOT_OK) { \\
            FAILED(node, status_); \\
            return status_; \\
        } \\
        AFTER(index); \\
    } while (0)
#define SAYING(node, call) \\
    do { \\
        const aot_status status_ = call; \\
        if (status_ != AOT_OK) { \\
            FAILED(node, status_); \\
            return status_; \\
        } \\
    } while (0)
"""
