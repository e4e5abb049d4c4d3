"""The names by which mypy knows what the plugin acts on. The static face lives in the stub package."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import TYPE_CHECKING, Final

from mypy.nodes import TypeInfo

from typedpallas import dtypes
from typedpallas.dtypes import DType
from typedpallas.spaces import MemorySpace

if TYPE_CHECKING:
    from typedpallas.types import Direction

PACKAGE: Final = "typedpallas."
REFS: Final = "typedpallas._refs."
"""Where the stubs define what users write."""
STATIC: Final = "typedpallas._static."
"""Where the stubs define what the plugin rewrites that to."""
BLOCK: Final = STATIC + "Block"
NUMBER: Final = STATIC + "Number"
ARRAY: Final = "jax._src.basearray.Array"

DIRECTIONS: Final[dict[str, Direction]] = {
    "Ref": "ref",
    "In": "in",
    "Out": "out",
    "InOut": "inout",
    "Scratch": "scratch",
}
ARITHMETIC: Final = ("Mul", "Add", "FloorDiv", "CDiv")
LIBRARIES_OF_OTHERS: Final = frozenset(sys.stdlib_module_names) | {"mypy_extensions", "typing_extensions"}
"""Where mypy itself has hooks, which ours must not displace."""


def is_ours(fullname: str, *names: str) -> bool:
    """Whether this is one of typedpallas's own names, in whichever of its modules the stubs define it."""
    return fullname.startswith(PACKAGE) and fullname.rpartition(".")[2] in names


def direction(info: TypeInfo) -> Direction | None:
    """The direction of a ref class, or none if the class is no ref."""
    return DIRECTIONS.get(info.name) if info.fullname.startswith(PACKAGE) else None


def space(info: TypeInfo) -> type[MemorySpace] | None:
    """The memory space that a class of the static face stands for."""
    return _space(info.fullname)


@functools.cache
def _space(fullname: str) -> type[MemorySpace] | None:
    module, _, name = fullname.rpartition(".")
    if not module.startswith("typedpallas"):
        return None
    found = getattr(importlib.import_module(module), name, None)
    return found if isinstance(found, type) and issubclass(found, MemorySpace) else None


def dtype(info: TypeInfo) -> type[DType] | None:
    """The element type, or the family of element types, that a class of the static face stands for."""
    return _dtype(info.fullname)


@functools.cache
def _dtype(fullname: str) -> type[DType] | None:
    if not fullname.startswith(PACKAGE):
        return None
    name = fullname.rpartition(".")[2]
    found = dtypes.from_name(name) or getattr(dtypes, name, None)
    return found if isinstance(found, type) and issubclass(found, DType) else None
