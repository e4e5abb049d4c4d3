"""The index maps of a kernel's operands over its grid, and what the body does where they go."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from typedpallas.diagnostics import Place
from typedpallas.dims import Size
from typedpallas.events import Context, IndexMap, Visits
from typedpallas.tracing import jaxapi
from typedpallas.tracing.grid import atomics as grid_atomics
from typedpallas.tracing.grid import bodies as grid_bodies
from typedpallas.tracing.grid import index_bounds, index_tables
from typedpallas.tracing.grid import maps as grid_maps
from typedpallas.tracing.grid import values as grid_values
from typedpallas.tracing.grid import verdicts as grid_verdicts
from typedpallas.tracing.grid import visits as grid_visits
from typedpallas.tracing.grid.bodies import Body, Tri
from typedpallas.tracing.grid.index_bounds import Within
from typedpallas.tracing.grid.maps import Map
from typedpallas.tracing.located import Located
from typedpallas.tracing.outer import program as grid_around
from typedpallas.tracing.outer import tables as table_facts
from typedpallas.tracing.outer.tables import Tables
from typedpallas.tracing.walk import KernelCall, Operand
from typedpallas.tracing.windows import block_sizes


def events(kernel: KernelCall, context: Context) -> Iterator[Located]:
    """One `IndexMap` for each operand that Pallas cuts into blocks, at the map's line.

    Where it is open what tables hold, the first operand whose blocks are read from them stands for all.
    """
    tables = table_facts.of(kernel)
    grid = _Grid.of(kernel, tables)
    if grid is None:
        return
    tabled: list[Located] = []
    for position, operand in enumerate(kernel.operands):
        if operand.mapping is None or operand.array is None or operand.block is None or operand.role == "scratch":
            continue
        event = _event(kernel, grid, position, operand, tables)
        place = functools.partial(_place, kernel, operand)
        located = Located(event, place, kernel.name)
        if event.prefetched:
            yield from (Located(read, place, kernel.name) for read in index_tables.reads(kernel, operand))
        if event.visits is None and event.reads and (event.role == "out" or not event.in_range):
            tabled.append(located)
        else:
            yield located
    if tabled:
        yield _together(tabled)


def _together(tabled: list[Located]) -> Located:
    """The first of the operands whose blocks are read from tables, with the names of the others."""
    pairs = [(located, located.event) for located in tabled if isinstance(located.event, IndexMap)]
    pairs.sort(key=lambda pair: pair[1].in_range)  # stable: those that may leave their array come first
    first, others = pairs[0][0], pairs[1:]
    maps = [event for _, event in pairs if event.in_range == pairs[0][1].in_range]
    reads = tuple(dict.fromkeys(name for event in maps for name in event.reads))
    event = replace(maps[0], reads=reads, alike=tuple(event.name for event in maps[1:]))
    return Located(event, first.place, first.kernel) if others else first


def _place(kernel: KernelCall, operand: Operand) -> Place:
    """The map's own line; the call's where no person wrote the map."""
    place = jaxapi.place_of_function(jaxapi.open_jaxpr(operand.mapping.index_map_jaxpr).debug_info.func_src_info)
    return place if place.file and jaxapi.is_user_file(place.file) else kernel.place


@dataclass(frozen=True)
class _Grid:
    """How the grid runs. ``hidden`` axes come from `jax.vmap`: the body does not see them."""

    extents: tuple[int | None, ...]
    hidden: tuple[int, ...]
    parallel: frozenset[int]
    sequential: bool
    bodies: dict[int, Body] = field(default_factory=dict, compare=False)
    """What the body does to each output, by its position, once one of them was asked for."""

    @staticmethod
    def of(kernel: KernelCall, tables: Tables | None = None) -> "_Grid | None":
        mapping = kernel.eqn.params.get("grid_mapping")
        if mapping is None:
            return None
        hidden = tuple(mapping.vmapped_dims)
        axes = [axis for axis in range(len(kernel.grid)) if axis not in hidden]
        parallel = set(hidden) | {axes[k] for k in _parallel(kernel, len(axes))}
        extents = kernel.grid if tables is None else tables.grid
        return _Grid(extents, hidden, frozenset(parallel), kernel.backend == "mosaic_tpu")

    def seen(self, axis: int) -> int | None:
        """The axis as the body counts it; none if it does not see it."""
        return None if axis in self.hidden else axis - sum(other < axis for other in self.hidden)


def _parallel(kernel: KernelCall, count: int) -> list[int]:
    """The body's grid axes along which programs may run at once."""
    declared = semantics(kernel)
    if kernel.backend == "mosaic_tpu":
        return [k for k, how in enumerate(declared or ()) if how == "parallel" and k < count]
    if kernel.backend is None:
        return []
    return [k for k in range(count) if declared is None or k >= len(declared) or declared[k] == "parallel"]


def semantics(kernel: KernelCall) -> tuple[Literal["parallel", "arbitrary"], ...] | None:
    """What the call says about each grid axis; none if it says nothing."""
    given = getattr(kernel.compiler_params, "dimension_semantics", None)
    if given is None:
        return None
    return tuple(
        "parallel" if "parallel" in str(getattr(how, "value", how)).lower() else "arbitrary" for how in given
    )


def _event(kernel: KernelCall, grid: _Grid, position: int, operand: Operand, tables: Tables) -> IndexMap:
    assert operand.block is not None and operand.array is not None
    jaxpr = jaxapi.open_jaxpr(operand.mapping.index_map_jaxpr)
    found = _map(grid, operand, tables)
    output = _output_number(kernel, position)
    visits = None if found is None else _visits(found, grid, output is not None)
    reads = _reads(kernel, jaxpr, len(grid.extents))
    event = IndexMap(
        name=operand.name,
        role="in" if output is None else "out",
        grid=tuple(None if extent is None else Size.of(extent) for extent in grid.extents),
        parameters=len(jaxpr.invars),
        results=len(operand.block),
        block=block_sizes(operand.block),
        array=tuple(Size.of(extent) if isinstance(extent, int) else None for extent in operand.array),
        semantics=semantics(kernel),
        prefetched=len(jaxpr.invars) - len(grid.extents),
        reads=reads,
        in_range=visits is None and bool(reads) and _in_range(grid, operand, tables),
        entries=_entries(kernel, found, visits),
        visits=visits,
        guarded=_is_guarded(kernel, position),
    )
    return event if output is None else _with_output(event, kernel, grid, position, found, visits, output)


def _visits(found: Map, grid: _Grid, stored: bool) -> Visits | None:
    return grid_visits.follow(found, grid.parallel, grid.sequential) if stored else grid_visits.reach(found)


def _entries(kernel: KernelCall, found: Map | None, visits: Visits | None) -> tuple[tuple[str, int], ...]:
    """The entries of tables that lead to the first block out of range."""
    if found is None or visits is None or visits.outside is None:
        return ()
    names = [operand.name for operand in kernel.operands]
    return tuple(dict.fromkeys(index_tables.entries(found.jaxpr, visits.outside[0], names, found.tables, found.grid)))


def _in_range(grid: _Grid, operand: Operand, tables: Tables) -> bool:
    """Whether the map stays within the operand's array whatever the tables hold."""
    assert operand.block is not None and operand.array is not None
    if None in operand.block:
        return False
    sizes = zip(operand.block, operand.array, strict=True)
    blocks = tuple(-(-extent // dim) if isinstance(dim, int) else extent for dim, extent in sizes)
    return index_bounds.proved(Within(operand.mapping.index_map_jaxpr, grid.extents, blocks, tables.ends))


def map_of(kernel: KernelCall, operand: Operand) -> Map | None:
    """An operand's index map in numbers; none where it has none, or the grid, the block or the array is not known."""
    tables = table_facts.of(kernel)
    grid = _Grid.of(kernel, tables)
    if grid is None or operand.mapping is None or operand.array is None or operand.block is None:
        return None
    return _map(grid, operand, tables)


def _map(grid: _Grid, operand: Operand, tables: Tables | None = None) -> Map | None:
    """The map in numbers; none where the grid, the block or the array is not known."""
    assert operand.block is not None and operand.array is not None
    block = tuple(1 if dim == "squeezed" else dim for dim in operand.block)
    known = [dim for dim in (*block, *operand.array, *grid.extents) if isinstance(dim, int)]
    if len(known) != len(block) + len(operand.array) + len(grid.extents):
        return None
    extents = tuple(extent for extent in grid.extents if extent is not None)
    sizes = tuple(int(dim or 0) for dim in block)
    contents = () if tables is None else tables.contents
    return Map(operand.mapping.index_map_jaxpr, extents, sizes, operand.array, contents)


def _reads(kernel: KernelCall, jaxpr: Any, axes: int) -> tuple[str, ...]:
    if len(jaxpr.invars) == axes:
        return ()
    names = {var: operand.name for var, operand in zip(jaxpr.invars[axes:], kernel.operands, strict=False)}
    read = [atom for eqn in jaxpr.eqns for atom in eqn.invars if not jaxapi.is_literal(atom)]
    return tuple(dict.fromkeys(names[atom] for atom in read if atom in names))


def _is_guarded(kernel: KernelCall, position: int) -> bool:
    """Whether the operand is reached only through masks or branches, or not by plain accesses at all."""
    return kernel.jaxpr.invars[position] not in kernel.once(_plainly_accessed)


def _plainly_accessed(kernel: KernelCall) -> set[Any]:
    """The variables of loads and stores at the top of the body."""
    users = [eqn for eqn in kernel.jaxpr.eqns if eqn.primitive.name in ("get", "swap", "addupdate")]
    return {atom for eqn in users for atom in eqn.invars if not jaxapi.is_literal(atom)}


def _output_number(kernel: KernelCall, position: int) -> int | None:
    before = [operand.role for operand in kernel.operands[:position]]
    return before.count("out") if kernel.operands[position].role == "out" else None


def _with_output(
    event: IndexMap,
    kernel: KernelCall,
    grid: _Grid,
    position: int,
    found: Map | None,
    visits: Visits | None,
    output: int,
) -> IndexMap:
    collides: Tri = "unknown"
    stale: Tri = "unknown"
    if found is not None and visits is not None and (visits.shared or visits.returns):
        at, whole = grid_values.points(found.grid)
        ids = grid_maps.block_ids(found, at) if whole else None
        if ids is not None:
            body = _body(kernel, grid, position, found, at)
            shared = not grid_atomics.only_combined(kernel.jaxpr, kernel.jaxpr.invars[position])
            collides = _collides(body, ids, at, grid, visits) if shared else "no"
            stale = grid_verdicts.builds_on_stale(body, ids) if visits.returns else "no"
    return replace(
        event,
        aliased=any(out == output for _, out in kernel.aliases),
        whole_result=grid_around.result_is_whole(kernel, output),
        collides=collides,
        keeps_stale=stale,
    )


def _collides(body: Body, ids: Any, at: Any, grid: _Grid, visits: Visits) -> Tri:
    if visits.shared is None:
        return "no"
    axes = {axis: seen for axis in grid.parallel if (seen := grid.seen(axis)) is not None}
    return grid_verdicts.stored_together(body, ids, at, axes)


def _body(kernel: KernelCall, grid: _Grid, position: int, found: Map, at: Any) -> Body:
    if not grid.bodies:
        moves = [_moves(operand, grid, found.grid) for operand in kernel.operands]
        walked = grid_values.walked(at, found.grid, grid.hidden)
        outputs = [number for number, operand in enumerate(kernel.operands) if operand.role == "out"]
        grid.bodies.update(grid_bodies.touches(kernel.jaxpr, outputs, moves, walked, len(at)))
    return grid.bodies[position]


def _moves(operand: Operand, grid: _Grid, extents: tuple[int, ...]) -> frozenset[int]:
    """The axes, as the body counts them, along which what a ref holds changes."""
    if operand.mapping is None or operand.block is None:
        return frozenset({grid_bodies.DATA})
    jaxpr = operand.mapping.index_map_jaxpr
    used = set().union(*grid_maps.axes_of_each(jaxpr, len(extents), extents))
    seen = {grid.seen(axis) for axis in used}
    return frozenset(axis for axis in seen if axis is not None)
