"""What is known of an array value."""

from __future__ import annotations

import functools

from mypy.types import TypeVarType

from typedpallas import dtypes
from typedpallas.dims import Size
from typedpallas.events import Shape
from typedpallas.records import record


@record(frozen=True)
class Value:
    """What is known of an array value: ``dtype`` is JAX's name, ``shape`` in elements.

    ``parameter`` is the type parameter that stands for the element type, where one does. A ``weak`` value is a
    Python scalar: it takes the element type of what it meets.
    """

    dtype: str | None
    shape: Shape | None
    weak: bool = False
    parameter: TypeVarType | None = None

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Every name that occurs in the shape, sorted."""
        return tuple(sorted({name for size in self.shape or () if size is not None for name in size.names}))

    @functools.cached_property
    def plain(self) -> bool:
        """Whether the type that says this value, read back, is this value: its sizes are numbers and bare names."""
        if self.weak or (self.dtype is None) is (self.parameter is None):
            return False
        if self.dtype is not None and dtypes.from_jax_name(self.dtype) is None:
            return False
        known = [size for size in self.shape or () if size is not None]
        return all(size.const is not None or bare_name(size) is not None for size in known)

    @functools.cached_property
    def text(self) -> str:
        """The value in one line; equal texts are equal values but for what a parameter is besides its name."""
        shape = "*" if self.shape is None else [size if size is None else size.terms for size in self.shape]
        name = self.parameter.name if self.parameter is not None else ""
        return f"v{self.dtype}{'~' if self.weak else ''}<{name}>{shape}"


UNKNOWN = Value(None, None)
_MOST_KEPT = 4096
_ONE: dict[tuple[str | None, Shape | None], Value] = {}


def one(dtype: str | None, shape: Shape | None, parameter: TypeVarType | None = None) -> Value:
    """The one value of this element type and shape, so that what follows from it is worked out once."""
    if parameter is not None:
        return Value(dtype, shape, parameter=parameter)
    key = (dtype, shape)
    known = _ONE.get(key)
    if known is None:
        if len(_ONE) >= _MOST_KEPT:
            _ONE.clear()
        known = _ONE[key] = Value(dtype, shape)
    return known


def bare_name(size: Size) -> str | None:
    """The name that a size is, if it is nothing else."""
    if len(size.terms) != 1 or size.terms[0][1] != 1 or len(size.terms[0][0]) != 1:
        return None
    (atom,) = size.terms[0][0]
    return atom if isinstance(atom, str) else None
