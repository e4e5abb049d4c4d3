"""A call of JAX and what came of it, without JAX."""

from __future__ import annotations

import functools
from typing import Literal

from typedpallas.records import record
from typedpallas_mypy.static import Leaf, Static, leaves
from typedpallas_mypy.value import Value


@record(frozen=True)
class Call:
    """One call.

    ``function`` is a full name, or ``method:sum``, ``attribute:T``, ``operator:add``, ``index:``, ``portable:dot``.
    """

    function: str
    arguments: tuple[Static, ...]
    keywords: tuple[tuple[str, Static], ...] = ()

    @functools.cached_property
    def leaves(self) -> list[Leaf]:
        """Everything that was passed, flat."""
        everything = (*self.arguments, *(value for _, value in self.keywords))
        return [leaf for argument in everything for leaf in leaves(argument)]


@record(frozen=True)
class Refused:
    """JAX's refusal, in the user's names."""

    message: str
    kind: Literal["shape", "dtype"]


@record(frozen=True)
class Several:
    """A tuple or a list of results."""

    kind: Literal["tuple", "list"]
    items: tuple[Outcome, ...]


type Outcome = Value | Several | None
"""What came out; none where it is no array."""
