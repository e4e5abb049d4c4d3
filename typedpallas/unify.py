"""One call of a typed function: its values held against its annotations, its dims bound to numbers."""

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args, get_origin

from typedpallas import dtypes, spaces
from typedpallas.dim_types import family, multiple_of
from typedpallas.dims import Size
from typedpallas.types import BlockType, RefType
from typedpallas.values import Value, fits_space, read

type Declared = RefType | BlockType


class SignatureError(TypeError):
    """A value that does not fit its annotation. ``parameter`` is ``return`` for what the function returns."""

    def __init__(self, function: str, parameter: str, declared: str, expected: str, found: str) -> None:
        self.function = function
        self.parameter = parameter
        self.expected = expected
        self.found = found
        subject = "the return value" if parameter == "return" else f"argument `{parameter}`"
        super().__init__(f"{function}: {subject} is no `{declared}`: expected {expected}, found {found}")


@dataclass(frozen=True)
class _Bound:
    """What a dim stands for in this call, and the place that said so."""

    number: int
    origin: str

    def __str__(self) -> str:
        return f"{self.number} ({self.origin})"


@dataclass(frozen=True)
class _Waiting:
    """A computed dim some of whose names have no number yet."""

    size: Size
    found: int
    axis: int
    parameter: str
    declared: Declared


@dataclass
class Call:
    """The names of one call. Raises `SignatureError` at the first value that does not fit."""

    function: str
    dims: dict[str, _Bound] = field(default_factory=dict)
    dtypes: dict[str, tuple[str, str]] = field(default_factory=dict)
    waiting: list[_Waiting] = field(default_factory=list)
    bounds: dict[str, TypeVar] = field(default_factory=dict)

    def check(self, hint: Any, value: Any, parameter: str) -> None:
        """Hold ``value`` against an annotation; parts that are none of this package's are let through."""
        if isinstance(hint, RefType | BlockType):
            self._fit(hint, value, parameter)
        elif isinstance(hint, TypeVar):
            self._number(hint, value, parameter)
        elif get_origin(hint) in (typing.Union, types.UnionType):
            self._any_of(get_args(hint), value, parameter)
        elif get_origin(hint) in (tuple, list):
            self._each(hint, value, parameter)

    def _any_of(self, hints: tuple[Any, ...], value: Any, parameter: str) -> None:
        plain = tuple(hint for hint in hints if isinstance(hint, type))
        own = [hint for hint in hints if isinstance(hint, RefType | BlockType)]
        if isinstance(value, plain) or len(plain) + len(own) < len(hints):
            return
        for i, hint in enumerate(own):
            saved = dict(self.dims), dict(self.dtypes), list(self.waiting)
            try:
                return self._fit(hint, value, parameter)
            except SignatureError:
                if i == len(own) - 1:
                    raise
                self.dims, self.dtypes, self.waiting = saved

    def _each(self, hint: Any, value: Any, parameter: str) -> None:
        inner = get_args(hint)
        if not isinstance(value, get_origin(hint)):
            raise self._error(parameter, hint, f"a {get_origin(hint).__name__}", f"`{type(value).__name__}`")
        if get_origin(hint) is list or inner[1:] == (...,):
            inner = inner[:1] * len(value)
        if len(inner) != len(value):
            raise self._error(parameter, hint, f"{len(inner)} items", str(len(value)))
        for i, (part, item) in enumerate(zip(inner, value, strict=True)):
            self.check(part, item, f"{parameter}[{i}]")

    def _number(self, parameter: TypeVar, value: Any, name: str) -> None:
        """An argument annotated with a dim itself: ``n: BM``."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._error(name, parameter.__name__, "an int", f"`{type(value).__name__}`")
        self.bounds[parameter.__name__] = parameter
        self._bind(parameter.__name__, value, f"`{name}`", name, parameter.__name__)

    def _fit(self, declared: Declared, value: Any, parameter: str) -> None:
        found = read(value)
        wanted = "ref" if isinstance(declared, RefType) else "value"
        if found is None or found.kind not in (wanted, "either"):
            shown = f"`{type(value).__name__}`" if found is None else str(found)
            hint = ""
            if found is not None:
                hint = "; load it: `ref[...]`" if wanted == "value" else "; pass the ref, not what it holds"
            raise self._error(parameter, declared, f"a {wanted}", shown + hint)
        self.bounds |= {p.__name__: p for p in declared.parameters}
        if isinstance(declared, RefType) and not fits_space(declared.space, found.space):
            assert found.space is not None
            where = "Pallas's default space, on TPU `tpu.VMEM`" if found.space is spaces.BLOCK else None
            raise self._error(
                parameter, declared, f"`{spaces.name(declared.space)}`", where or f"`{spaces.name(found.space)}`"
            )
        self._fit_dtype(declared, found, parameter)
        self._fit_shape(declared, found, parameter)

    def _fit_dtype(self, declared: Declared, found: Value, parameter: str) -> None:
        wanted, marker = declared.dtype, dtypes.from_jax_name(found.dtype)
        shown = f"`{dtypes.short(found.dtype)}`"
        if wanted is None:
            return
        if isinstance(wanted, TypeVar):
            bound = family(wanted) or dtypes.DType
            constraints = wanted.__constraints__ or (bound,)
            if marker is None or not issubclass(marker, constraints):
                names = " or ".join(f"`{c.__name__}`" for c in constraints)
                raise self._error(parameter, declared, f"an element type of {names}", shown)
            name, origin = self.dtypes.setdefault(wanted.__name__, (found.dtype, f"of `{parameter}`"))
            if name != found.dtype:
                raise self._error(
                    parameter, declared, f"{wanted.__name__} = `{dtypes.short(name)}` ({origin})", shown
                )
        elif marker is None or not issubclass(marker, wanted):
            raise self._error(parameter, declared, f"`{wanted.__name__}`", shown)

    def _fit_shape(self, declared: Declared, found: Value, parameter: str) -> None:
        if declared.shape is None:
            return
        if len(declared.shape) != len(found.shape):
            raise self._error(
                parameter, declared, f"{len(declared.shape)} dims", f"{len(found.shape)}: {_shape(found.shape)}"
            )
        for axis, (size, number) in enumerate(zip(declared.shape, found.shape, strict=True)):
            if not isinstance(number, int):
                continue  # a symbolic dim of `jax.export`: not decided here
            if size.const is not None and size.const != number:
                raise self._error(parameter, declared, f"{size.const} on axis {axis}", str(number))
            name = _alone(size)
            if name is not None:
                self._bind(name, number, f"axis {axis} of `{parameter}`", parameter, declared, axis)
            elif size.const is None:
                self.waiting.append(_Waiting(size, number, axis, parameter, declared))

    def _bind(
        self, name: str, number: int, origin: str, parameter: str, declared: Any, axis: int | None = None
    ) -> None:
        on = "" if axis is None else f" on axis {axis}"
        known = self.dims.setdefault(name, _Bound(number, origin))
        if known.number != number:
            raise self._error(parameter, declared, f"{name} = {known}{on}", str(number))
        step = multiple_of(self.bounds[name])
        if number % step:
            low = number // step * step
            near = f"{low} and {low + step} are the nearest" if low else f"{step} is the smallest"
            raise self._error(parameter, declared, f"{name} a multiple of {step}{on}", f"{number} ({near})")

    def settle(self) -> None:
        """Decide the computed dims, as far as their names are bound; one that is left over is found from them."""
        before = -1
        while self.waiting and len(self.waiting) != before:
            before = len(self.waiting)
            waiting, self.waiting = self.waiting, []
            for item in waiting:
                self._settle(item)

    def _settle(self, item: _Waiting) -> None:
        size = item.size.substitute({name: bound.number for name, bound in self.dims.items()})
        if size.const is not None:
            if size.const != item.found:
                raise self._error(item.parameter, item.declared, self._worked_out(item), str(item.found))
            return
        solved = _solve(size, item.found)
        if solved is None:
            self.waiting.append(item)
            return
        name, number = solved
        if number is None:
            expected = f"{item.size} on axis {item.axis}"
            raise self._error(item.parameter, item.declared, expected, f"{item.found}, which no {name} makes")
        origin = f"{item.size} = {item.found}, axis {item.axis} of `{item.parameter}`"
        self._bind(name, number, origin, item.parameter, item.declared, item.axis)

    def _worked_out(self, item: _Waiting) -> str:
        known = ", ".join(f"{name} = {self.dims[name]}" for name in sorted(item.size.names))
        number = item.size.evaluate({name: bound.number for name, bound in self.dims.items()})
        return f"{item.size} = {number} on axis {item.axis} with {known}"

    def _error(self, parameter: str, declared: Any, expected: str, found: str) -> SignatureError:
        return SignatureError(self.function, parameter, str(declared), expected, found)


def _shape(shape: tuple[Any, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _alone(size: Size) -> str | None:
    """The name that the size is, or none if it is computed or a number."""
    if len(size.terms) == 1 and size.terms[0][1] == 1 and len(size.terms[0][0]) == 1:
        atom = size.terms[0][0][0]
        return atom if isinstance(atom, str) else None
    return None


def _solve(size: Size, value: int) -> tuple[str, int | None] | None:
    """The one name in ``size`` and the number that makes it ``value``, if any; none if it is not linear in one."""
    linear: Mapping[Any, int] = dict(size.terms)
    names = [monomial for monomial in linear if monomial]
    if len(names) != 1 or len(names[0]) != 1 or not isinstance(names[0][0], str):
        return None
    rest = value - linear.get((), 0)
    quotient, remainder = divmod(rest, linear[names[0]])
    return names[0][0], quotient if not remainder and quotient >= 0 else None
