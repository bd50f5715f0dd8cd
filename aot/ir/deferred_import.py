# SPDX-License-Identifier: Apache-2.0
"""Modules that are loaded at the first access to one of their attributes.

`onnx` and `ir` (onnx_ir) cost more time than all of aotc, and many commands never touch a model:
every file imports both from here. Beside them stand modules that a dependency imports and a
compilation never uses.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any


class _Deferred(ModuleType):
    """Stands in `sys.modules` until an attribute is asked for."""

    def __getattr__(self, name: str) -> Any:
        """Import the real module at the first use of a name of it, and answer from there."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        real = importlib.import_module(self.__name__)
        self.__dict__.update(real.__dict__)
        return getattr(real, name)


if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir
else:
    onnx, ir = _Deferred("onnx"), _Deferred("onnx_ir")

__all__ = ("defer", "defer_symbolic", "ir", "onnx")


def defer_symbolic() -> None:
    """Keep onnx_ir from loading sympy, which it needs for arithmetic on symbolic dimensions only.

    That takes longer than compiling a small model; dimensions are pinned before onnx_ir sees them.
    """
    defer("sympy")
    defer("onnx_ir._symbolic_shapes")


def defer(name: str) -> None:
    """Make `import NAME` return at once; the module is executed when an attribute is read.

    Does nothing if the module is loaded or absent.
    (importlib's LazyLoader does not do: before Python 3.12 the import statement itself wakes it.)
    """
    if name in sys.modules:
        return
    # The spec of a submodule would execute its package: do without.
    spec = None if "." in name else importlib.util.find_spec(name)
    if spec is None and "." not in name:
        return
    stand_in = _Deferred(name)
    stand_in.__spec__ = spec
    sys.modules[name] = stand_in
