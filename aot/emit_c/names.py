# SPDX-License-Identifier: Apache-2.0
"""The bundle's name: the prefix of every symbol, file and CMake target."""

from __future__ import annotations

import logging
import os
from pathlib import PurePath
from typing import Any

from aot.load.names import RESERVED as KEYWORDS

#: A longer name is cut: every symbol, file and CMake target begins with it.
MAX_LENGTH = 64
_ALLOWED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")

#: Headers and functions of libc, libraries everyone links, CMake's own targets.
_LIBC = frozenset(
    """
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign
    stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar
    wchar wctype unistd fcntl dlfcn pthread semaphore sched stat types socket main exit abort atexit
    malloc calloc realloc free memcpy memset memmove memcmp printf scanf puts gets read write open
    close system rand srand qsort bsearch strlen strcmp strcpy remove rename tmpfile fopen fclose
    abs labs div ldiv exp log sin cos tan tanh sqrt pow floor ceil round trunc fabs fmod fmax fmin
    erf gamma hypot logb rint j0 j1 jn y0 y1 yn index link select send recv bind listen accept wait
    fork exec kill sleep pause nice dup pipe sync acct daemon environ optarg optind stderr stdin
    stdout timezone daylight tzname
    """.split()
)
#: More headers that system headers include by name: NAME.h would be found before them.
_HEADERS = frozenset(
    """
    aio aliases alloca ar argp argz byteswap cpio cpuid dirent elf endian envz err error execinfo
    fcntl features fmtmsg fnmatch fstab fts ftw gconv getopt glob grp gshadow iconv ieeefp ifaddrs
    langinfo lastlog libgen libintl libio machine mcheck memory mm_malloc mntent monetary mqueue
    netdb newlib nl_types nss obstack paths poll printf proc_service pty pwd re_comp reent
    regex regexp search sgtty shadow spawn stab stdbit stdckdint stdfix stdio_ext strings syscall
    sysexits syslimits syslog tar termio termios thread_db ttyent ucontext ulimit unctrl unwind
    utime utmp utmpx values varargs wordexp zconf zlib windows winsock io conio direct crtdefs
    vcruntime corecrt arm_acle arm_fp16 arm_bf16 arm_mve arm_neon arm_sve arm_cmse riscv_vector
    mm3dnow
    """.split()
)
_LIBRARIES = frozenset(
    """
    a c m dl rt z gcc gcc_s stdc supc atomic pthread util crypt resolv nsl ld libc libm gomp omp
    quadmath gfortran asan tsan ubsan lsan png jpeg tiff ssl crypto curl xml2 ffi uv event sqlite3
    python python3 tvm tvm_ffi tvm_runtime onnx onnxruntime dnnl blas cblas lapack openblas mkl
    protobuf opencv aot c99 gtest gmock boost
    """.split()
)
_CMAKE = frozenset(
    """
    all all_build clean depend edit_cache help install install_local install_strip
    list_install_components package package_source preinstall rebuild_cache run_tests test
    zero_check uninstall codegen default_target none continuous experimental
    nightly interface public private debug optimized general release default
    """.split()
)
RESERVED = KEYWORDS | _LIBC | _HEADERS | _LIBRARIES | _CMAKE


def bundle_name(wanted: str, source: Any) -> str:
    """The C prefix of a bundle: `wanted`, else the stem of the file `source`, made an identifier.

    Other characters than letters, digits and `_` become `_`, a leading digit or underscore gets
    `m`, and a name others own gets `_model` (logged by "aotc"; the command line says it too).
    """
    text = wanted or _stem(source)
    name = "".join(c if c in _ALLOWED else "_" for c in text)[:MAX_LENGTH] or "model"
    if name[0].isdigit():
        name = f"m_{name}"
    elif name[0] == "_":
        name = f"m{name}"
    if is_reserved(name):
        logging.getLogger("aotc").info(
            "the name %s is reserved: the bundle is called %s_model", name, name
        )
        name += "_model"
    return name


def is_reserved(name: str) -> bool:
    """Whether C, C++, libc, a common library, CMake or the runtime itself owns `name`."""
    low = name.lower()
    return low in RESERVED or low.startswith(("aot_", "tvmgen_")) or low.endswith("intrin")


def _stem(source: Any) -> str:
    """The file's name without folder and suffix; "model" for a model that is no file."""
    if isinstance(source, str | os.PathLike):
        return PurePath(os.fsdecode(source)).stem
    return "model"
