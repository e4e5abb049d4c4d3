"""Loads, stores and indices of refs; slices have a file of their own."""

from __future__ import annotations

from typing import Literal

from typedpallas.events.context import RefFact, Shape
from typedpallas.records import record


@record(frozen=True, kw_only=True)
class Access:
    """One load from or store to a ref. ``moved`` is the shape that the index selects, in elements."""

    op: Literal["load", "store"]
    ref: RefFact
    moved: Shape | None
    value_shape: Shape | None = None
    """Stores: the shape of the value."""
    value_dtype: str | None = None
    """Stores: the value's element type; none if unknown or a Python scalar."""


@record(frozen=True, kw_only=True)
class Index:
    """The index of one access or view, by its parts. ``dtypes`` are JAX's names of those that are arrays."""

    name: str
    given: int
    """How many parts it has, an ellipsis counted for what it stands for."""
    rank: int
    """The rank of the ref that it indexes."""
    dtypes: tuple[str, ...] = ()
    of_block: bool = False
    """Whether it is what an index map returns, and ``name`` an operand's."""
