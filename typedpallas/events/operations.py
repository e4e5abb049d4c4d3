"""Operations on values, and where a kernel wants its buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from typedpallas.events.context import ArrayType, Shape
from typedpallas.records import record
from typedpallas.spaces import MemorySpace


@record(frozen=True, kw_only=True)
class Operation:
    """A function that JAX's abstract evaluation refused, in JAX's words; or one of ``tp``'s, in its own."""

    function: str
    operands: tuple[str, ...]
    """The operands' types, as messages write them."""
    refusal: str
    kind: Literal["shape", "dtype"]
    by: Literal["JAX", "typedpallas"] = "JAX"
    """Whose words ``refusal`` has."""


@record(frozen=True, kw_only=True)
class Value:
    """A value that a kernel works with; ``primitive`` says what makes it: a grid bound, an operand, an index map."""

    primitive: str
    shape: Shape
    dtype: str


@record(frozen=True, kw_only=True)
class Placement:
    """A space that an operand or a scratch buffer asks for."""

    name: str
    space: type[MemorySpace]
    role: Literal["operand", "scratch"] = "scratch"


@record(frozen=True, kw_only=True)
class Applied:
    """One operation that the kernel's trace has, on arrays (refs left out)."""

    primitive: str
    operands: tuple[ArrayType, ...]
    results: tuple[ArrayType, ...]
    parameters: Mapping[str, object] = field(default_factory=dict)
    """JAX's, as it names them; only what a rule reads needs to be there."""
    lowered: bool | None = None
    """Whether the backend's lowering knows the operation at all; none if that was not asked."""
    known: bool = True
    """Of operations on refs: whether JAX has any meaning for it."""
    on_data: bool | None = None
    """Whether an operand comes from memory or a program id, so that no compiler works the result out by itself."""


@record(frozen=True, kw_only=True)
class Reduced:
    """A reduction of a loaded array in a Mosaic GPU kernel that leaves all register layouts to the compiler."""

    primitive: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]


@record(frozen=True, kw_only=True)
class Capture:
    """Arrays that a kernel or an index map closes over, as messages write their types."""

    function: str
    kind: Literal["kernel", "index map"]
    types: tuple[str, ...]


@record(frozen=True, kw_only=True)
class WrappedSum:
    """A sum of integer matrix products that is kept in a narrower type than they have, from step to step."""

    wide: str
    """The type of the products; JAX's name."""
    narrow: str
    buffer: str
    """What the sum is kept in."""
    terms: int
    """How many products are added, at least two."""
    depth: int
    """How many pairs of elements each product adds up."""
    operands: tuple[str, str]
    """The products' element types; JAX's names."""
    loaded: bool
    """Whether both operands are what memory holds, and not made by the kernel."""
    widened: bool
    """Whether the kernel makes a wider value of the sum afterwards."""


@record(frozen=True, kw_only=True)
class NarrowedSum:
    """A part of a sum that is rounded to a narrow type, and only then added in a wide one."""

    wide: str
    """The type of the part and of the sum; JAX's name."""
    narrow: str
    target: str
    """What the sum is kept in."""
    terms: int | None = None
    """How many such parts are added; none where unknown."""
    product: bool = True
    """Whether each part is a matrix product."""
    result: bool = False
    """Whether the sum is a result of the kernel as it is, and not rounded later."""


@record(frozen=True, kw_only=True)
class Turned:
    """An operation that needs a value whose last axis lies otherwise in the vector registers."""

    primitive: str
    what: Literal["column", "mask"]
    """A value whose last axis lies across rows and is needed along lanes; truth values, the other way round."""
    dtype: str
    shape: tuple[int, ...]
    """In elements."""
