"""Annotations at run time: ``In[VMEM, bf16, BM, BK]`` becomes a `RefType`; a kernel's signature a `KernelType`.

Type checkers see the stub package instead; here the same spelling is read, for the launch and for `tp.typed`.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import GenericAlias
from typing import Any, Literal, TypeVar, TypeVarTuple, get_args, get_origin

from typedpallas import spaces
from typedpallas.dims import Facts, Size
from typedpallas.dtypes import DType
from typedpallas.spaces import MemorySpace

type Dim = int
type Multiple[K] = int
type Mul[P, Q] = Any
type Add[P, Q] = Any
type FloorDiv[P, Q] = Any
type CDiv[P, Q] = Any

type Direction = Literal["ref", "in", "out", "inout", "scratch"]

_DIM_FORMS = "`L[128]`, a type parameter, or `Mul`, `Add`, `FloorDiv`, `CDiv` of these"
_ARITHMETIC: dict[object, Callable[[Size, Size], Size]] = {
    Mul: lambda a, b: a * b,
    Add: lambda a, b: a + b,
    FloorDiv: lambda a, b: a // b,
    CDiv: lambda a, b: a.cdiv(b),
}


class AnnotationError(TypeError):
    """An annotation that means nothing: the message names the part and what was expected there."""


@dataclass(frozen=True)
class RefType:
    """The type of a buffer: direction, space, element type and shape (elements; none if of any rank)."""

    direction: Direction
    space: type[MemorySpace]
    dtype: type[DType] | TypeVar | None
    """A marker, a type parameter bound to a family, or none for semaphores and barriers."""
    shape: tuple[Size, ...] | None
    parameters: tuple[TypeVar, ...] = ()
    """Every type parameter that occurs, dims and dtypes, in order of appearance."""

    def __str__(self) -> str:
        dims = ["..."] if self.shape is None else [_dim_text(size) for size in self.shape]
        dtype = [] if self.dtype is None else [self.dtype.__name__]
        kind = {"ref": "Ref", "in": "In", "out": "Out", "inout": "InOut", "scratch": "Scratch"}[self.direction]
        return f"{kind}[{', '.join([self.space.__name__, *dtype, *dims])}]"


@dataclass(frozen=True)
class BlockType:
    """The type of a value: element type and shape (elements; none if of any rank)."""

    dtype: type[DType] | TypeVar
    shape: tuple[Size, ...] | None
    parameters: tuple[TypeVar, ...] = ()

    def __str__(self) -> str:
        dims = ["..."] if self.shape is None else [_dim_text(size) for size in self.shape]
        return f"Block[{', '.join([self.dtype.__name__, *dims])}]"


def _dim_text(size: Size) -> str:
    return f"L[{size}]" if size.const is not None else str(size)


class Ref:
    """A buffer that may be read and written: ``Ref[space, dtype, *shape]``."""

    direction: Direction = "ref"

    def __class_getitem__(cls, arguments: object) -> RefType:
        items = arguments if isinstance(arguments, tuple) else (arguments,)
        return _ref_type(cls.direction, cls.__name__, items)


class In(Ref):
    """An operand that the kernel reads and never stores to."""

    direction = "in"


class Out(Ref):
    """A result: stored to before it is read, on every path."""

    direction = "out"


class InOut(Ref):
    """An operand that the kernel reads and updates in place."""

    direction = "inout"


class Scratch(Ref):
    """A buffer of the kernel's own; it holds garbage until it is stored to."""

    direction = "scratch"


class Block:
    """A value loaded from a ref: ``Block[dtype, *shape]``; a `jax.Array` at run time."""

    def __class_getitem__(cls, arguments: object) -> BlockType:
        items = arguments if isinstance(arguments, tuple) else (arguments,)
        if not items or not _is_dtype(items[0]):
            found = _shown(items[0] if items else None)
            raise AnnotationError(f"{cls.__name__}[...] starts with an element type such as `f32`, found {found}")
        shape, parameters = _shape(items[1:], cls.__name__)
        return BlockType(items[0], shape, _ordered(items[0], parameters))


class Array(Block):
    """A whole array, outside a kernel: ``Array[dtype, *shape]``."""


def _ref_type(direction: Direction, kind: str, items: tuple[Any, ...]) -> RefType:
    space = items[0] if items else None
    if not (isinstance(space, type) and issubclass(space, MemorySpace)):
        raise AnnotationError(f"{kind}[...] starts with a memory space such as `tpu.VMEM`, found {_shown(space)}")
    if not space.data:
        shape, parameters = _shape(items[1:], kind)
        return RefType(direction, space, None, shape, parameters)
    if len(items) < 2 or not _is_dtype(items[1]):
        found = _shown(items[1]) if len(items) > 1 else "nothing"
        raise AnnotationError(
            f"{kind}[{space.__name__}, ...] goes on with an element type such as `f32`, found {found}"
        )
    shape, parameters = _shape(items[2:], kind)
    return RefType(direction, space, items[1], shape, _ordered(items[1], parameters))


def _is_dtype(item: object) -> bool:
    if isinstance(item, TypeVar):
        return _family(item) is not None
    return isinstance(item, type) and issubclass(item, DType)


def _family(parameter: TypeVar) -> type[DType] | None:
    """The dtype family that bounds a type parameter, or none if it is a dim."""
    bounds = parameter.__constraints__ or (parameter.__bound__,)
    families = [b for b in bounds if isinstance(b, type) and issubclass(b, DType)]
    if not families:
        return None
    return families[0] if len(families) == 1 else DType


def _ordered(dtype: object, parameters: tuple[TypeVar, ...]) -> tuple[TypeVar, ...]:
    return (dtype, *parameters) if isinstance(dtype, TypeVar) else parameters


def _shape(items: tuple[Any, ...], kind: str) -> tuple[tuple[Size, ...] | None, tuple[TypeVar, ...]]:
    parameters: list[TypeVar] = []
    shape: list[Size] = []
    for item in items:
        if item is ... or isinstance(item, TypeVarTuple) or _is_unpacked(item):
            return None, tuple(parameters)
        shape.append(parse_dim(item, parameters, kind))
    return tuple(shape), tuple(dict.fromkeys(parameters))


def _is_unpacked(item: object) -> bool:
    return bool(getattr(item, "__unpacked__", False)) or get_origin(item) is typing.Unpack


def parse_dim(item: object, parameters: list[TypeVar], where: str) -> Size:
    """One dim of an annotation; type parameters that it mentions are added to ``parameters``.

    Raises:
        AnnotationError: it is none of the forms that a dim may have.
    """
    if isinstance(item, int) and not isinstance(item, bool):
        return _positive(item, where)
    if get_origin(item) is Literal:
        values = get_args(item)
        if len(values) == 1 and isinstance(values[0], int) and not isinstance(values[0], bool):
            return _positive(values[0], where)
    if isinstance(item, TypeVar):
        if _family(item) is not None:
            raise AnnotationError(f"{where}: `{item.__name__}` is an element type, found where a dim belongs")
        parameters.append(item)
        return Size.of(item.__name__)
    arithmetic = _ARITHMETIC.get(_alias(item))
    if arithmetic is not None:
        left, right = (parse_dim(part, parameters, where) for part in get_args(item))
        return arithmetic(left, right)
    raise AnnotationError(f"{where}: expected a dim ({_DIM_FORMS}), found {_shown(item)}")


def _alias(item: object) -> object:
    """The alias that ``item`` subscripts (`Mul` of ``Mul[L[2], BM]``), or none."""
    return item.__origin__ if isinstance(item, GenericAlias) else None


def _positive(value: int, where: str) -> Size:
    if value < 0:
        raise AnnotationError(f"{where}: a dim is at least 0, found {value}")
    return Size.of(value)


def _shown(item: object) -> str:
    return f"`{item.__name__}`" if isinstance(item, type | TypeVar) else f"`{item!r}`"


def multiple_of(parameter: TypeVar) -> int:
    """The divisor that the bound of a dim parameter promises; 1 if it promises none.

    Raises:
        AnnotationError: the bound is neither `Dim`, `int` nor `Multiple[L[n]]`.
    """
    bound = parameter.__bound__
    if bound is None or bound is int or bound is Dim:
        return 1
    if _alias(bound) is Multiple:
        divisor = parse_dim(get_args(bound)[0], [], f"bound of `{parameter.__name__}`").const
        if divisor:
            return divisor
    raise AnnotationError(
        f"bound of `{parameter.__name__}`: expected `Dim` or `Multiple[L[8]]`, found {_shown(bound)}"
    )


@dataclass(frozen=True)
class Parameter:
    """One positional parameter of a kernel; ``type`` is none where it has no `Ref` annotation."""

    name: str
    type: RefType | None


@dataclass(frozen=True)
class KernelType:
    """What a kernel's signature says. ``dims`` and ``dtypes`` are its type parameters by name."""

    name: str
    parameters: tuple[Parameter, ...]
    dims: Mapping[str, TypeVar] = field(default_factory=dict)
    dtypes: Mapping[str, TypeVar] = field(default_factory=dict)

    @functools.cached_property
    def facts(self) -> Facts:
        """What the bounds of the dims promise."""
        return Facts(multiples={name: multiple_of(dim) for name, dim in self.dims.items()})

    def of(self, *directions: Direction) -> tuple[Parameter, ...]:
        """The parameters with these directions, in order."""
        return tuple(p for p in self.parameters if p.type is not None and p.type.direction in directions)


def kernel_type(kernel: Callable[..., Any]) -> KernelType:
    """Read a kernel's signature; `functools.partial` and bound methods are looked through.

    Raises:
        AnnotationError: an annotation means nothing.
    """
    function = kernel
    while isinstance(function, functools.partial):
        function = function.func
    hints = _hints(inspect.unwrap(function))
    signature = inspect.signature(kernel)
    positional = [
        p.name
        for p in signature.parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    parameters = tuple(Parameter(n, _as_ref(hints.get(n))) for n in positional)
    used = [v for p in parameters if p.type is not None for v in p.type.parameters]
    return KernelType(
        getattr(function, "__name__", type(function).__name__),
        parameters,
        dims={v.__name__: v for v in used if _family(v) is None},
        dtypes={v.__name__: v for v in used if _family(v) is not None},
    )


def _as_ref(hint: object) -> RefType | None:
    return hint if isinstance(hint, RefType) else None


def _hints(function: Any) -> dict[str, Any]:
    """The annotations, strings evaluated among the function's own type parameters."""
    function = getattr(function, "__func__", function)
    if not hasattr(function, "__annotations__"):
        function = type(function).__call__
    local = {p.__name__: p for p in getattr(function, "__type_params__", ())}
    return typing.get_type_hints(function, localns=local, include_extras=True)


def space_name(ref: RefType) -> str:
    """How messages write the space of a ref."""
    return spaces.name(ref.space)
