"""Annotations at run time: ``In[VMEM, bf16, BM, BK]`` becomes a `RefType`; a kernel's signature a `KernelType`.

Type checkers see the stub package instead; here the same spelling is read, for the launch and for `tp.typed`.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal, TypeVar

from typedpallas import spaces
from typedpallas.annotations import AnnotationError, name_of, resolved
from typedpallas.dim_types import (
    Add,
    CDiv,
    Dim,
    FloorDiv,
    Mul,
    Multiple,
    family,
    found,
    multiple_of,
    parse_dim,
    parse_shape,
)
from typedpallas.dims import Facts, Size
from typedpallas.dtypes import DType
from typedpallas.records import record
from typedpallas.spaces import MemorySpace

__all__ = [
    "Add",
    "AnnotationError",
    "Array",
    "Block",
    "BlockType",
    "CDiv",
    "Dim",
    "Direction",
    "FloorDiv",
    "In",
    "InOut",
    "KernelType",
    "Mul",
    "Multiple",
    "Out",
    "Parameter",
    "Ref",
    "RefType",
    "Scratch",
    "family",
    "kernel_type",
    "multiple_of",
    "parse_dim",
    "space_name",
]

type Direction = Literal["ref", "in", "out", "inout", "scratch"]

_KINDS: dict[Direction, str] = {"ref": "Ref", "in": "In", "out": "Out", "inout": "InOut", "scratch": "Scratch"}


class _Optional:
    """Lets an annotation stand in a union: ``Block[f32, N] | None``. Neither side need be a class."""

    def __or__(self, other: object) -> Any:
        return typing.Union.__getitem__((self, other))

    def __ror__(self, other: object) -> Any:
        return typing.Union.__getitem__((other, self))


@record(frozen=True, repr=False)
class RefType(_Optional):
    """The type of a buffer: direction, space, element type and shape (elements; none if of any rank)."""

    direction: Direction
    space: type[MemorySpace]
    dtype: type[DType] | TypeVar | None
    """A marker, a type parameter bound to a family, or none for semaphores and barriers."""
    shape: tuple[Size, ...] | None
    parameters: tuple[TypeVar, ...] = ()
    """Every type parameter that occurs, dims and dtypes, in order of appearance."""

    def __str__(self) -> str:
        dtype = [] if self.dtype is None else [self.dtype.__name__]
        return f"{_KINDS[self.direction]}[{', '.join([self.space.__name__, *dtype, *_dims_text(self.shape)])}]"

    __repr__ = __str__


@record(frozen=True, repr=False)
class BlockType(_Optional):
    """The type of a value: element type and shape (elements; none if of any rank)."""

    dtype: type[DType] | TypeVar
    shape: tuple[Size, ...] | None
    parameters: tuple[TypeVar, ...] = ()
    kind: Literal["Block", "Array"] = "Block"

    def __str__(self) -> str:
        return f"{self.kind}[{', '.join([self.dtype.__name__, *_dims_text(self.shape)])}]"

    __repr__ = __str__


def _dims_text(shape: tuple[Size, ...] | None) -> list[str]:
    if shape is None:
        return ["..."]
    return [f"L[{size}]" if size.const is not None else str(size) for size in shape]


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

    kind: Literal["Block", "Array"] = "Block"

    def __class_getitem__(cls, arguments: object) -> BlockType:
        items = arguments if isinstance(arguments, tuple) else (arguments,)
        if not items or not _is_dtype(items[0]):
            wrong = found(items[0]) if items else "nothing"
            raise AnnotationError(f"{cls.__name__}[...] starts with an element type such as `f32`, found {wrong}")
        shape, parameters = parse_shape(items[1:], f"{cls.__name__}[...]")
        return BlockType(items[0], shape, _ordered(items[0], parameters), cls.kind)


class Array(Block):
    """A whole array, outside a kernel: ``Array[dtype, *shape]``."""

    kind = "Array"


def _ref_type(direction: Direction, kind: str, items: tuple[Any, ...]) -> RefType:
    space = items[0] if items else None
    if not (isinstance(space, type) and issubclass(space, MemorySpace)):
        wrong = found(space) if items else "nothing"
        raise AnnotationError(f"{kind}[...] starts with a memory space such as `tpu.VMEM`, found {wrong}")
    where = f"{kind}[{space.__name__}, ...]"
    if not space.data:
        if len(items) > 1 and _is_dtype(items[1]):
            raise AnnotationError(f"{where} goes on with dims, for it holds no elements; found {found(items[1])}")
        shape, parameters = parse_shape(items[1:], where)
        return RefType(direction, space, None, shape, parameters)
    if len(items) < 2 or not _is_dtype(items[1]):
        wrong = found(items[1]) if len(items) > 1 else "nothing"
        raise AnnotationError(f"{where} goes on with an element type such as `f32`, found {wrong}")
    shape, parameters = parse_shape(items[2:], where)
    return RefType(direction, space, items[1], shape, _ordered(items[1], parameters))


def _is_dtype(item: object) -> bool:
    if isinstance(item, TypeVar):
        return family(item) is not None
    return isinstance(item, type) and issubclass(item, DType)


def _ordered(dtype: object, parameters: tuple[TypeVar, ...]) -> tuple[TypeVar, ...]:
    return (dtype, *parameters) if isinstance(dtype, TypeVar) else parameters


@record(frozen=True)
class Parameter:
    """One positional parameter of a kernel; ``type`` is none where it has no `Ref` annotation."""

    name: str
    type: RefType | None


@record(frozen=True)
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
    """Read a kernel's signature; partials, decorators, bound methods and callable objects are looked through.

    Raises:
        AnnotationError: an annotation means nothing.
    """
    hints = resolved(kernel)
    positional = [
        p.name
        for p in inspect.signature(kernel).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    parameters = tuple(Parameter(n, _as_ref(hints.get(n), n)) for n in positional)
    used = [v for p in parameters if p.type is not None for v in p.type.parameters]
    return KernelType(
        name_of(kernel),
        parameters,
        dims={v.__name__: v for v in used if family(v) is None},
        dtypes={v.__name__: v for v in used if family(v) is not None},
    )


def _as_ref(hint: object, parameter: str) -> RefType | None:
    require_subscript(hint, parameter)
    return hint if isinstance(hint, RefType) else None


def require_subscript(hint: object, parameter: str) -> None:
    """A bare ``x: In`` says nothing.

    Raises:
        AnnotationError: it is one.
    """
    if isinstance(hint, type) and issubclass(hint, Ref | Block):
        raise AnnotationError(f"`{parameter}: {hint.__name__}` says too little: write `{hint.__name__}[...]`")


def space_name(ref: RefType) -> str:
    """How messages write the space of a ref."""
    return spaces.name(ref.space)
