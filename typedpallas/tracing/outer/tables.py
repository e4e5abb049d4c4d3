"""What is known of the scalars that a kernel gets ahead of its blocks: tables, and grid bounds of its call."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from typedpallas.tracing.outer import scopes as outer_scopes
from typedpallas.tracing.outer.bounds import Elements, Ends
from typedpallas.tracing.outer.values import Array, Values
from typedpallas.tracing.walk import KernelCall


@dataclass(frozen=True)
class Tables:
    """The tables in the order in which index maps take them."""

    grid: tuple[int | None, ...]
    """The steps along each axis, those that the call works out among them."""
    contents: tuple[Array | None, ...] = ()
    ends: tuple[Ends | None, ...] = ()
    """Between what a table's entries lie, whatever the data."""
    given: tuple[Any, ...] = ()
    """The arguments of the program whose contents were used, as variables."""


def of(kernel: KernelCall) -> Tables:
    """What follows for one kernel from constants, given arguments and the operations on them."""
    return kernel.once(_worked_out)


def _worked_out(kernel: KernelCall) -> Tables:
    mapping = kernel.eqn.params.get("grid_mapping")
    scope = None if mapping is None else outer_scopes.innermost(kernel)
    if mapping is None or scope is None or not mapping.num_index_operands + mapping.num_dynamic_grid_bounds:
        return Tables(kernel.grid)
    values = Values()
    first = mapping.num_dynamic_grid_bounds
    atoms = kernel.eqn.invars[first : first + mapping.num_index_operands]
    contents = [values.of(scope, atom) for atom in atoms]
    grid = _grid(kernel, [values.of(scope, atom) for atom in kernel.eqn.invars[:first]])
    elements = Elements(values)
    names = [operand.name for operand in kernel.operands]
    ends = tuple(_assumed(kernel, name, elements.ends(scope, atom)) for name, atom in zip(names, atoms, strict=False))
    wide = tuple(
        None if array is None or array.dtype.kind not in "iub" else array.astype(np.int64) for array in contents
    )
    outermost = kernel.path[0][0]
    return Tables(grid, wide, ends, tuple(var for var in outermost.invars if var in values.used))


def _assumed(kernel: KernelCall, name: str, ends: Ends) -> Ends:
    low, high = kernel.assumed.get(name, ends)
    return max(low, ends[0]), min(high, ends[1])


def _grid(kernel: KernelCall, bounds: Sequence[Array | None]) -> tuple[int | None, ...]:
    """The grid with the bounds that are operands, as far as they are known, in the places of those that are not."""
    missing = iter(bounds)
    extents = list(kernel.grid)
    for axis, extent in enumerate(extents):
        if extent is None:
            bound = next(missing, None)
            extents[axis] = None if bound is None or bound.size != 1 else int(bound.reshape(()))
    return tuple(extents)
