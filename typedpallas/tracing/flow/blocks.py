"""The indices of operands' blocks at steps of a walk over the grid."""

from collections.abc import Sequence
from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow.numbers import Number, literal
from typedpallas.tracing.flow.plan import Plans
from typedpallas.tracing.flow.run import Run
from typedpallas.tracing.flow.state import PLAIN, Bound, Ids
from typedpallas.tracing.walk import Operand

_BUDGET = 1000
"""Equations of one index map."""


class Blocks:
    """The index maps of one kernel, on a grid of these extents."""

    def __init__(self, extents: tuple[int, ...], plans: Plans) -> None:
        self._extents, self._plans = extents, plans
        self._plain: dict[int, Sequence[Number | int] | None] = {}
        """By the `id` of their operands."""

    def at(self, operand: Operand, ids: Ids) -> list[Number]:
        """The block's index at a step.

        Raises:
            NotFollowed: the index map is too long to walk.
        """
        plain = self._plainly(operand, len(ids))
        if plain is not None:
            return [ids[part] if isinstance(part, int) else part for part in plain]
        jaxpr = jaxapi.open_jaxpr(operand.mapping.index_map_jaxpr)
        inner = Run(unroll=0, budget=_BUDGET, extents=self._extents, ids=ids, plans=self._plans)
        data = [PLAIN] * (len(jaxpr.invars) - len(ids))
        return [bound.number for bound in inner.inner(jaxpr, [*(Bound(number) for number in ids), *data])]

    def is_plain(self, operand: Operand, axes: int) -> bool:
        """Whether an index is made of numbers and of ids of these many axes as they are."""
        return self._plainly(operand, axes) is not None

    def _plainly(self, operand: Operand, axes: int) -> Sequence[Number | int] | None:
        if id(operand) not in self._plain:
            self._plain[id(operand)] = _plain(jaxapi.open_jaxpr(operand.mapping.index_map_jaxpr), axes)
        return self._plain[id(operand)]


def _plain(jaxpr: Any, axes: int) -> Sequence[Number | int] | None:
    """The results of an index map, each a number or the axis whose id it is; none where one is anything else."""
    found: list[Number | int] = []
    for atom in jaxpr.outvars:
        if jaxapi.is_literal(atom):
            found.append(literal(atom.val))
            continue
        axis = next((k for k, var in enumerate(jaxpr.invars[:axes]) if var is atom), None)
        if axis is None:
            return None
        found.append(axis)
    return found
