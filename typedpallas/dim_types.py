"""Dims as annotations spell them: ``L[128]``, a type parameter, ``Mul[L[2], BM]``; each becomes a `Size`."""

import typing
from collections.abc import Callable
from enum import Enum
from types import GenericAlias
from typing import Any, Literal, TypeVar, TypeVarTuple, get_args, get_origin

from typedpallas import dtypes
from typedpallas.annotations import AnnotationError
from typedpallas.dims import Size
from typedpallas.dtypes import DType

type Dim = int
type Multiple[K] = int
type Mul[P, Q] = Any
type Add[P, Q] = Any
type FloorDiv[P, Q] = Any
type CDiv[P, Q] = Any

_FORMS = "`L[128]`, a type parameter, or `Mul`, `Add`, `FloorDiv`, `CDiv` of these"
_ARITHMETIC: dict[object, Callable[[Size, Size], Size]] = {
    Mul: lambda a, b: a * b,
    Add: lambda a, b: a + b,
    FloorDiv: lambda a, b: a // b,
    CDiv: lambda a, b: a.cdiv(b),
}


def family(parameter: TypeVar) -> type[DType] | None:
    """The dtype family that bounds a type parameter, or none if it is a dim."""
    bounds = parameter.__constraints__ or (parameter.__bound__,)
    families = [b for b in bounds if isinstance(b, type) and issubclass(b, DType)]
    if not families:
        return None
    return families[0] if len(families) == 1 else DType


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
        if divisor and divisor > 0:
            return divisor
    raise AnnotationError(
        f"bound of `{parameter.__name__}`: expected `Dim` or `Multiple[L[8]]`, found {found(bound)}"
    )


def parse_shape(items: tuple[Any, ...], where: str) -> tuple[tuple[Size, ...] | None, tuple[TypeVar, ...]]:
    """The dims of an annotation, none if it is of any rank, and the type parameters among them.

    Raises:
        AnnotationError: one of them is no dim.
    """
    parameters: list[TypeVar] = []
    shape: list[Size] = []
    any_rank = False
    for item in items:
        if item is ... or isinstance(item, TypeVarTuple) or _is_unpacked(item):
            any_rank = True
        else:
            shape.append(parse_dim(item, parameters, where))
    return (None if any_rank else tuple(shape)), tuple(dict.fromkeys(parameters))


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
        if family(item) is not None:
            raise AnnotationError(f"{where}: `{item.__name__}` is an element type, found where a dim belongs")
        parameters.append(item)
        return Size.of(item.__name__)
    if _alias(item) in _ARITHMETIC:
        return _computed(item, parameters, where)
    raise AnnotationError(f"{where}: expected a dim ({_FORMS}), found {found(item)}")


def _computed(item: Any, parameters: list[TypeVar], where: str) -> Size:
    """``Mul[L[2], BM]`` and its like."""
    form, parts = item.__origin__, get_args(item)
    if len(parts) != 2:
        raise AnnotationError(f"{where}: `{form.__name__}` takes two dims, found {len(parts)}")
    left, right = (parse_dim(part, parameters, where) for part in parts)
    try:
        return _ARITHMETIC[form](left, right)
    except ZeroDivisionError:
        raise AnnotationError(f"{where}: `{form.__name__}` divides {left} by zero") from None


def _alias(item: object) -> object:
    """The alias that ``item`` subscripts (`Mul` of ``Mul[L[2], BM]``), or none."""
    return item.__origin__ if isinstance(item, GenericAlias) else None


def _positive(value: int, where: str) -> Size:
    if value < 0:
        raise AnnotationError(f"{where}: a dim is at least 0, found {value}")
    return Size.of(value)


def found(item: object) -> str:
    """What an annotation has in a place, for messages; for a thing of JAX's, the spelling that was meant too."""
    shown = f"`{item.__name__}`" if isinstance(item, type | TypeVar) else f"`{item!r}`"
    marker = dtypes.from_jax_name(str(getattr(item, "__name__", item)))
    if marker is not None and not (isinstance(item, type) and issubclass(item, DType)):
        return f"{shown}: write `{marker.__name__}`"
    if isinstance(item, Enum) and type(item).__name__ == "MemorySpace":
        return f"{shown} of Pallas: write the space of that name in `typedpallas.tpu` or `typedpallas.gpu`"
    if isinstance(item, str):
        return f'{shown}: write `Mul[L[2], BM]` for "2*BM"'
    return shown
