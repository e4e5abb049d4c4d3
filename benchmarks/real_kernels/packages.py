"""The packages whose kernels are called: found in a folder of their own, imported without what they do not need.

They are never installed beside typedpallas (`setup.sh` says how they are fetched). Some import profilers on the
way to their kernels; those modules are stood in for. Some packages' ``__init__`` imports a whole training stack;
`without_init` reaches their inner modules past it.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

_STOOD_IN = ("xprof", "tensorboardX", "tensorboardx")
"""Profilers: imported at the top of modules, used only when something is measured on a device."""


def use(folder: Path) -> None:
    """Look for packages in the folder too, after everything that is installed."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    if not any(isinstance(finder, _StandInFinder) for finder in sys.meta_path):
        sys.meta_path.append(_StandInFinder())


def is_there(package: str) -> bool:
    """Whether the package can be imported here."""
    return package in sys.modules or importlib.util.find_spec(package) is not None


def without_init(*names: str) -> None:
    """Enter each package as a bare name, so that its modules can be imported and its ``__init__`` never runs."""
    for name in names:
        if name in sys.modules:
            continue
        parent, _, last = name.rpartition(".")
        places = sys.modules[parent].__path__ if parent else sys.path
        module = types.ModuleType(name)
        module.__path__ = [str(Path(place) / last) for place in places if (Path(place) / last).is_dir()]
        sys.modules[name] = module


class _StandIn(types.ModuleType):
    """A module that has whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=f"{self.__name__}.{name}")


class _StandInFinder:
    """Finds stand-ins, where the real package is not installed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a stand-in; none for any other name."""
        if name.partition(".")[0] not in _STOOD_IN:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """An empty one."""
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""
