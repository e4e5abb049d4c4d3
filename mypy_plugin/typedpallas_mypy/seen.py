"""What was looked up and translated already in this build, so that each of mypy's types is taken apart once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from mypy.lookup import lookup_fully_qualified
from mypy.nodes import MypyFile, TypeInfo
from mypy.types import Instance, Type, TypeVarType

from typedpallas.events import Shape
from typedpallas.records import record
from typedpallas.spaces import MemorySpace
from typedpallas_mypy.value import Value

if TYPE_CHECKING:
    from typedpallas.types import Direction


class HasModules(Protocol):
    """What both of mypy's plugin interfaces offer: every module it has read."""

    modules: dict[str, MypyFile]


@record(frozen=True)
class RefParts:
    """A ref's type taken apart; ``base`` is the type seen as `Ref`."""

    base: Instance
    space: type[MemorySpace] | None
    dtype: str | None
    shape: Shape | None
    direction: Direction
    parameter: TypeVarType | None
    """The type parameter that stands for the element type, where one does."""


class Seen:
    """What was looked up and translated for the modules of one build; types are known by identity.

    An entry holds its type, so that no other can have its identity.
    """

    def __init__(self, modules: dict[str, MypyFile] | None = None) -> None:
        self.modules = modules
        self.infos: dict[str, TypeInfo] = {}
        self.bases: dict[TypeInfo, TypeInfo | None] = {}
        self.refs: dict[int, tuple[Type, RefParts | None, tuple[TypeVarType, ...]]] = {}
        self.values: dict[int, tuple[Type, Value | None, tuple[TypeVarType, ...]]] = {}
        self.markers: dict[str, Type] = {}
        """JAX's name of an element type to the type argument that says it."""
        self.multiples: dict[int, tuple[TypeVarType, int]] = {}
        """A type parameter to the divisor that its bound promises."""
        self.kernels: dict[int, tuple[Type, Any]] = {}
        """A function's signature to the kernel that it is."""
        self.blocks: dict[tuple[int, ...], tuple[Value, tuple[TypeVarType, ...], Instance]] = {}


_MOST_SEEN = 20_000
_SEEN = Seen()


def seen(api: HasModules | None) -> Seen:
    """What was seen in this build; nothing once another begins or it has grown too large."""
    global _SEEN
    modules = api.modules if api is not None else _SEEN.modules
    if _SEEN.modules is not modules or len(_SEEN.refs) + len(_SEEN.values) + len(_SEEN.kernels) > _MOST_SEEN:
        _SEEN = Seen(modules)
    return _SEEN


def info(api: HasModules, fullname: str) -> TypeInfo:
    """The class of this name.

    Raises:
        LookupError: mypy has not read its module.
    """
    known = seen(api).infos
    if fullname not in known:
        symbol = lookup_fully_qualified(fullname, api.modules)
        if symbol is None or not isinstance(symbol.node, TypeInfo):
            raise LookupError(f"mypy knows no class {fullname}")
        known[fullname] = symbol.node
    return known[fullname]
