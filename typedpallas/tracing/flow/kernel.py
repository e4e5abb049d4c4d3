"""What a kernel does to its memory over its whole grid: garbage in results, copies that nobody waits for."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from typedpallas.chips import TpuTarget
from typedpallas.diagnostics import Place
from typedpallas.events import Context, GarbageResult
from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow import cases as flow_cases
from typedpallas.tracing.flow import outside as flow_outside
from typedpallas.tracing.flow import padding as flow_padding
from typedpallas.tracing.flow import said as flow_said
from typedpallas.tracing.flow.claims import Claim, Early, Garbage, Hang, Left
from typedpallas.tracing.flow.grid import Grid
from typedpallas.tracing.flow.names import Naming
from typedpallas.tracing.flow.plan import Plans
from typedpallas.tracing.flow.run import NotFollowed, Run
from typedpallas.tracing.flow.segments import Segments, every, kinds
from typedpallas.tracing.grid import index_maps
from typedpallas.tracing.grid import maps as grid_maps
from typedpallas.tracing.grid import visits as grid_visits
from typedpallas.tracing.located import Located
from typedpallas.tracing.outer import program as grid_around
from typedpallas.tracing.outer import tables as table_facts
from typedpallas.tracing.walk import KernelCall

_MOST_STEPS = 256
"""Smaller grids are walked step by step."""
_TRIES = ((True, 64, 12_000), (False, 16, 12_000), (False, 2, 20_000))
"""Whether each step is walked, turns of loops that are walked one by one, and equations to visit: from exact to
coarse, until one is within its budget."""
_IN_CASES = 2000
"""Equations that a walk may visit to be made again step by step for each case."""
_PHASES_COST = 4
"""How many times as many equations a walk in phases may visit as one that takes all turns alike."""


@dataclass(frozen=True)
class _Found:
    """The certain claims of a walk, and the outputs of which something may be meant.

    ``how``: the walk, to be made again: whether each step is walked, turns that are, equations, whether in phases.
    """

    claims: Sequence[Claim] = ()
    meant: frozenset[int] = field(default_factory=frozenset)
    grid: Grid | None = None
    how: tuple[bool, int, int, bool] = (True, 0, 0, False)


def events(kernel: KernelCall, context: Context) -> Iterator[Located]:
    """What is certain about the kernel's memory; nothing where it cannot be followed."""
    if kernel.backend not in ("mosaic_tpu", "triton") or None in kernel.grid or 0 in kernel.grid:
        return
    if len(kernel.jaxpr.invars) != len(kernel.operands):
        return
    extents = tuple(extent for extent in kernel.grid if extent is not None)
    tables = _tables(kernel)
    found = _walked(kernel, extents, [0] * len(extents), tables)
    yield from _located(kernel, found, None)
    yield from _in_cases(kernel, extents, tables, found)
    if found.grid is not None:
        yield from flow_outside.events(kernel, found.grid.run)
    if found.claims or not isinstance(context.target, TpuTarget) or context.target.cores < 2:
        return
    for axis in _split(kernel, extents):
        first = [(extent + 1) // 2 if k == axis else 0 for k, extent in enumerate(extents)]
        yield from _located(kernel, _walked(kernel, extents, first, tables), axis)


def _in_cases(kernel: KernelCall, extents: Sequence[int], tables: Sequence[Any], found: _Found) -> Iterator[Located]:
    """What is certain where control hangs on data, in some case that the kernel tells apart."""
    if found.grid is None or kernel.backend != "mosaic_tpu":
        return
    exactly, unroll, budget, phased = found.how
    if found.grid.run.spent > _IN_CASES:
        exactly, phased = False, False

    def follow(naming: Naming) -> Grid:
        assert found.grid is not None
        run = Run(unroll, budget, phased=phased, naming=naming, plans=found.grid.run.plans)
        return _followed(kernel, extents, [0] * len(extents), run, exactly, tables)

    said = list(flow_cases.found(found.grid, follow))
    claims = [case.claim for case in said]
    for case in said:
        if not _follows(case.claim, claims):
            assert not isinstance(case.claim, Garbage)
            event = flow_said.event(case.claim, case.given)
            yield Located(event, _place(kernel, case.claim.eqn), kernel.name)


def _tables(kernel: KernelCall) -> Sequence[Any]:
    """What the scalars that are fetched ahead hold, where constants or the arguments that were given tell."""
    if not kernel.known or not any(operand.role == "prefetch" for operand in kernel.operands):
        return ()
    return table_facts.of(kernel).contents


def _split(kernel: KernelCall, extents: Sequence[int]) -> Iterator[int]:
    """The grid axes whose steps two cores share."""
    declared = getattr(kernel.compiler_params, "dimension_semantics", None) or ()
    hidden = kernel.eqn.params["grid_mapping"].vmapped_dims if "grid_mapping" in kernel.eqn.params else ()
    seen = [axis for axis in range(len(extents)) if axis not in hidden]
    for axis, how in zip(seen, declared, strict=False):
        if str(getattr(how, "value", how)).lower() == "parallel" and extents[axis] > 1:
            yield axis


def _walked(kernel: KernelCall, extents: Sequence[int], first: Sequence[int], tables: Sequence[Any]) -> _Found:
    """Walk the grid from step ``first`` along each axis, as exactly as can be paid for."""
    steps = math.prod(extent - begin for extent, begin in zip(extents, first, strict=True))
    plans = Plans()
    for exactly, unroll, budget in _TRIES:
        if exactly and steps > _MOST_STEPS:
            continue
        phased = exactly
        try:
            run = Run(unroll, budget, phased=phased, plans=plans)
            grid = _followed(kernel, extents, first, run, exactly, tables)
            cheap = grid.run.spent * _PHASES_COST <= budget
            if not exactly and cheap and plans.period(kernel.jaxpr) > 1:
                with suppress(NotFollowed):
                    run = Run(unroll, budget, phased=True, plans=plans)
                    grid = _followed(kernel, extents, first, run, exactly, tables)
                    phased = True
        except NotFollowed as stopped:
            if str(stopped) == "too long":
                continue
            return _Found()
        how = exactly, unroll, budget, phased
        return _Found(tuple(grid.run.claims), frozenset(grid.meant), grid, how)
    return _Found()


def _followed(
    kernel: KernelCall, extents: Sequence[int], first: Sequence[int], run: Run, exactly: bool, tables: Sequence[Any]
) -> Grid:
    """One walk over the whole grid.

    Raises:
        NotFollowed: it is too long, or does something that is not followed.
    """
    mapping = kernel.eqn.params.get("grid_mapping")
    hidden = frozenset(mapping.vmapped_dims) if mapping is not None else frozenset()
    last = len(extents) - 1
    phases = run.plans.period(kernel.jaxpr) if run.phased and not exactly and last not in hidden else 1
    compared = run.plans.compared(kernel.jaxpr) if phases > 1 else ()
    segments: list[Segments] = [
        every(extent, begin) if exactly else kinds(extent, begin, *((phases, compared) if axis == last else ()))
        for axis, (extent, begin) in enumerate(zip(extents, first, strict=True))
    ]
    grid = Grid(kernel, tuple(extents), hidden, segments, kernel.backend == "triton", run, tables, phases)
    grid.steps = math.prod(map(len, segments)) if exactly else 0
    grid.walk()
    if not run.shared <= run.remote:
        return _followed(kernel, extents, first, run.anew(), exactly, tables)
    return grid


def _located(kernel: KernelCall, found: _Found, split: int | None) -> Iterator[Located]:
    """Each claim once, at its line. Cores that share an axis are only asked for garbage."""
    seen: set[Any] = set()
    for claim in found.claims:
        key = _key(kernel, claim)
        if key in seen or _follows(claim, found.claims) or (split is not None and not _tells_of_cores(claim)):
            continue
        seen.add(key)
        if isinstance(claim, Garbage):
            yield from _garbage(kernel, claim, found, split)
        else:
            yield Located(flow_said.event(claim, None), _place(kernel, claim.eqn), kernel.name)


def _follows(claim: Claim, claims: Sequence[Claim]) -> bool:
    """Whether it only follows from another claim: a wait that hangs, a copy that nobody waits for."""
    if isinstance(claim, Left):
        return any(isinstance(other, Hang) and other.semaphore == claim.semaphore for other in claims)
    if isinstance(claim, Early):
        semaphore = claim.flight.semaphore
        return any(isinstance(other, Left) and (other.semaphore, other.element) == semaphore for other in claims)
    return False


def _tells_of_cores(claim: Claim) -> bool:
    """Whether garbage comes from a scratch buffer: an output that two cores share is a race."""
    return isinstance(claim, Garbage) and claim.origin is not None and claim.origin.buffer.role == "scratch"


def _key(kernel: KernelCall, claim: Claim) -> tuple[Any, ...]:
    if isinstance(claim, Garbage):
        if _is_padding(claim):
            return ("padding", claim.origin.buffer.number)  # type: ignore[union-attr]
        return ("garbage", id(claim.origin.eqn) if claim.origin else claim.output.number)
    place = _place(kernel, claim.eqn)
    at = id(claim.eqn) if place is kernel.place else (place.file, place.line, place.column)
    return (type(claim).__name__, at, None if isinstance(claim, Early) else claim.semaphore.number)


def _is_padding(claim: Garbage) -> bool:
    return claim.origin is not None and claim.origin.buffer.role == "in"


def _garbage(kernel: KernelCall, claim: Garbage, found: _Found, split: int | None) -> Iterator[Located]:
    number, position = _output(kernel, claim)
    visits = index_visits(kernel, position)
    if visits is None or visits.returns is not None or visits.outside is not None:
        return
    settled = _is_padding(claim) or (claim.origin is None and claim.by_any)
    if kernel.backend == "triton" and visits.shared is not None and not settled:
        return
    origin = claim.origin
    everything = claim.output.number not in found.meant
    whole = grid_around.result_is_whole(kernel, number)
    if origin is not None and _is_padding(claim):
        padding = flow_padding.event(kernel, claim, everything, whole)
        if padding is not None:
            yield Located(padding, _place(kernel, origin.mixed or origin.eqn), kernel.name)
        return
    event = GarbageResult(
        output=claim.output.name,
        buffer=None if origin is None else origin.buffer.name,
        role="output" if origin is None or origin.buffer.role == "out" else "scratch",
        step=() if origin is None else flow_said.point(origin.ids),
        element=None if origin is None else origin.element,
        block=flow_said.point(claim.block),
        result_element=claim.element,
        last_step=flow_said.point(claim.ids),
        everything=everything,
        whole_result=whole,
        split_axis=split,
        by_any=claim.by_any,
        stays_along=_stays(kernel, claim),
    )
    yield Located(event, _place(kernel, None if origin is None else origin.eqn), kernel.name)


def _place(kernel: KernelCall, eqn: Any) -> Place:
    """An equation's line; the call's where no person wrote it."""
    place = kernel.place if eqn is None else jaxapi.place(eqn)
    return place if place.file else kernel.place


def _stays(kernel: KernelCall, claim: Garbage) -> tuple[int, ...]:
    """The grid axes, as the body counts them, along which the result's block stays."""
    mapping = kernel.eqn.params["grid_mapping"]
    jaxpr = kernel.operands[claim.output.number].mapping.index_map_jaxpr
    extents = [extent or 0 for extent in kernel.grid]
    used = set().union(*grid_maps.axes_of_each(jaxpr, len(extents), extents))
    seen = [axis for axis in range(len(extents)) if axis not in mapping.vmapped_dims]
    return tuple(k for k, axis in enumerate(seen) if axis not in used and extents[axis] > 1)


def _output(kernel: KernelCall, claim: Garbage) -> tuple[int, int]:
    """The output's number among the results, and its position among the operands."""
    position = claim.output.number
    roles = [operand.role for operand in kernel.operands]
    return roles[:position].count("out"), position


def index_visits(kernel: KernelCall, position: int) -> Any:
    """Where an output's index map goes; none where that is not followed."""
    grid = index_maps._Grid.of(kernel)
    found = None if grid is None else index_maps._map(grid, kernel.operands[position])
    if grid is None or found is None:
        return None
    visits = grid_visits.follow(found, grid.parallel, grid.sequential)
    return visits if visits is not None and visits.complete else None
