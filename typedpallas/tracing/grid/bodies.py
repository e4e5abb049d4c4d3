"""What a kernel's body does to one output at each grid point: when it loads, when it stores, where, and what.

Conditions and indices that follow from program ids are known at every point; whatever depends on data is not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from typedpallas.tracing import jaxapi
from typedpallas.tracing.grid import indices as grid_indices
from typedpallas.tracing.grid import values as grid_values

type Ints = np.ndarray[Any, Any]
type Tri = Literal["yes", "no", "unknown"]

OLD = -1
"""Stands, among grid axes, for the old content of the output."""
DATA = -2
"""Stands, among grid axes, for data whose origin is not followed."""
_LOADS = ("get", "masked_load")
_STORES = ("swap", "addupdate", "masked_swap")
_INLINED = ("pjit", "jit", "closed_call")


@dataclass(frozen=True)
class Touch:
    """One access to the output. ``when`` has one truth value for each grid point; none where it depends on data."""

    kind: Literal["load", "store", "other"]
    when: Ints | None
    whole: bool = False
    """Whether it takes all elements of the block, unmasked."""
    starts: tuple[Ints, ...] | None = None
    """The first element along each axis, at each grid point; none where it takes no plain rectangle."""
    sizes: tuple[int, ...] = ()
    """The elements along each axis of such an access."""
    masked: bool = False
    """Whether it may take less than ``starts`` and ``sizes`` say."""
    depends: frozenset[int] = frozenset()
    """Stores: the grid axes, `OLD` or data, that the value is computed from."""


@dataclass
class _State:
    env: dict[Any, grid_values.Value]
    depends: dict[Any, frozenset[int]]
    refs: dict[Any, frozenset[int]]
    """Each ref to the grid axes that its block moves along."""
    output: Any
    when: Ints | None
    looped: bool = False
    runs: dict[Any, Ints] = field(default_factory=dict)
    """Vectors ``start + arange(n)`` to their start at each grid point."""
    spread: dict[Any, grid_values.Value] = field(default_factory=dict)
    """Vectors of one value to that value at each grid point."""


@dataclass
class Body:
    """Every touch of one output, in program order, at ``points`` grid points."""

    grid: grid_values.Walked
    points: int
    touches: list[Touch] = field(default_factory=list)
    selects_old: bool = False
    """Whether old content goes through a select, which may drop it."""


def touches(jaxpr: Any, output: int, moves: Sequence[frozenset[int]], grid: grid_values.Walked, points: int) -> Body:
    """The body's touches of its operand number ``output``; ``moves`` has each operand's axes."""
    body = Body(grid, points)
    refs = dict(zip(jaxpr.invars, moves, strict=True))
    state = _State({}, {}, refs, jaxpr.invars[output], np.ones(points, dtype=bool))
    _walk(jaxpr, state, body)
    return body


def _walk(jaxpr: Any, state: _State, body: Body) -> None:
    used = {atom for eqn in jaxpr.eqns for atom in eqn.invars if not jaxapi.is_literal(atom)} | {
        atom for atom in jaxpr.outvars if not jaxapi.is_literal(atom)
    }
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        state.env.update(zip(eqn.outvars, grid_values.results(eqn, state.env, body.grid), strict=True))
        _note_run(eqn, state, body)
        depends = _depends(eqn, state)
        if name == "select_n" and OLD in depends:
            body.selects_old = True
        inner = list(jaxapi.inner_jaxprs(eqn))
        if name == "cond":
            _branches(eqn, inner, state, body)
        elif name == "run_scoped" and inner:
            _enter(inner[0], list(inner[0].constvars), eqn.invars, state, body)
        elif name in _INLINED and inner and len(inner[0].invars) == len(eqn.invars):
            _enter(inner[0], list(inner[0].invars), eqn.invars, state, body)
        elif name == "scan" and len(inner) == 1 and len(inner[0].invars) == len(eqn.invars):
            _loop(inner[0], eqn, state, body)
        elif any(atom is state.output for atom in eqn.invars):
            _touch(eqn, name, state, body, used)
        state.depends.update({var: depends for var in eqn.outvars})


def _depends(eqn: Any, state: _State) -> frozenset[int]:
    """What an equation's results are computed from."""
    name = eqn.primitive.name
    found: set[int] = set()
    if name == "program_id":
        found.add(eqn.params["axis"])
    for atom in eqn.invars:
        if jaxapi.is_literal(atom):
            continue
        if atom in state.refs:
            found |= {OLD} if atom is state.output else state.refs[atom]
        found |= state.depends.get(atom, frozenset())
    if list(jaxapi.inner_jaxprs(eqn)) and name not in ("pjit", "jit"):
        found.add(DATA)
    return frozenset(found)


def _enter(inner: Any, variables: list[Any], operands: Sequence[Any], state: _State, body: Body) -> None:
    """Walk a jaxpr whose inputs are these operands."""
    env: dict[Any, grid_values.Value] = {}
    depends: dict[Any, frozenset[int]] = {}
    refs: dict[Any, frozenset[int]] = {}
    output = None
    for var, atom in zip(variables, operands, strict=True):
        env[var] = None if state.looped else grid_values.read(state.env, atom)
        if jaxapi.is_literal(atom):
            continue
        depends[var] = state.depends.get(atom, frozenset()) | ({DATA} if state.looped else frozenset())
        if atom in state.refs:
            refs[var] = state.refs[atom]
        output = var if atom is state.output else output
    entered = _State(env, depends, refs, output, state.when, state.looped)
    _walk(inner, entered, body)


def _loop(inner: Any, eqn: Any, state: _State, body: Body) -> None:
    """A loop of known length runs its body; what it carries is not followed."""
    if not eqn.params["length"]:
        return
    outer = _State(state.env, state.depends, state.refs, state.output, state.when, looped=True)
    _enter(inner, list(inner.invars), eqn.invars, outer, body)


def _branches(eqn: Any, inner: list[Any], state: _State, body: Body) -> None:
    which = grid_values.read(state.env, eqn.invars[0])
    for number, branch in enumerate(inner):
        when: Ints | None = None
        if which is not None and state.when is not None:
            when = state.when & np.broadcast_to(which.astype(int) == number, (body.points,))
        entered = _State(state.env, state.depends, state.refs, state.output, when, state.looped)
        _enter(branch, list(branch.invars), eqn.invars[1:], entered, body)


def _touch(eqn: Any, name: str, state: _State, body: Body, used: set[Any]) -> None:
    if name not in (*_LOADS, *_STORES) or jaxapi.accessed(eqn)[0] is not state.output:
        body.touches.append(Touch("other", state.when))
        return
    starts, sizes, whole = _where(eqn, state, body)
    masked = grid_indices.is_masked(eqn)
    value = jaxapi.accessed(eqn)[1]
    if value is None:
        body.touches.append(Touch("load", state.when, whole, starts, sizes, masked))
        return
    adds = name == "addupdate"
    if adds or any(var in used for var in eqn.outvars):
        body.touches.append(Touch("load", state.when, whole, starts, sizes, masked))
    origin = frozenset() if jaxapi.is_literal(value) else state.depends.get(value, frozenset())
    origin |= {OLD} if adds else frozenset()
    body.touches.append(Touch("store", state.when, whole, starts, sizes, masked, origin))


def _where(eqn: Any, state: _State, body: Body) -> tuple[tuple[Ints, ...] | None, tuple[int, ...], bool]:
    """First element and size along each axis, and whether all of the block is taken; none where it is masked."""
    masked = grid_indices.is_masked(eqn)
    index = grid_indices.indexed(eqn, state.runs)
    shape = jaxapi.accessed(eqn)[0].aval.shape
    if index is None or len(index) != len(shape):
        return None, (), False
    starts: list[Ints] = []
    whole = not masked
    for (start, size), extent in zip(index, shape, strict=True):
        value = _start(start, state)
        if value is None:
            return None, (), False
        starts.append(np.broadcast_to(value, (body.points,)))
        whole = whole and size == extent and not np.any(value)
    return tuple(starts), tuple(size for _, size in index), whole


def _start(start: Any, state: _State) -> grid_values.Value:
    if isinstance(start, int):
        return np.asarray(start)
    return state.runs.get(start) if grid_indices.is_vector(start) else grid_values.read(state.env, start)


def _note_run(eqn: Any, state: _State, body: Body) -> None:
    """Remember what an equation makes if that is a vector ``start + arange(n)``."""
    aval = getattr(eqn.outvars[0], "aval", None) if len(eqn.outvars) == 1 else None
    if len(getattr(aval, "shape", ())) != 1 or np.dtype(getattr(aval, "dtype", "f4")).kind not in "iu":
        return
    name, out = eqn.primitive.name, eqn.outvars[0]
    if name == "iota":
        state.runs[out] = np.zeros(body.points, dtype=np.int64)
    elif name == "broadcast_in_dim" and eqn.invars[0].aval.shape == ():
        state.spread[out] = grid_values.read(state.env, eqn.invars[0])
    elif name == "convert_element_type" and not jaxapi.is_literal(eqn.invars[0]) and eqn.invars[0] in state.runs:
        state.runs[out] = state.runs[eqn.invars[0]]
    elif name == "add":
        for run, other in (eqn.invars, eqn.invars[::-1]):
            scalar = other.aval.shape == ()
            offset = grid_values.read(state.env if scalar else state.spread, other)
            if not jaxapi.is_literal(run) and run in state.runs and offset is not None:
                state.runs[out] = state.runs[run] + offset


def stored_together(body: Body, ids: Ints, points: Ints, axes: Mapping[int, int]) -> Tri:
    """Whether two points that share a block (equal ``ids``) store different values to the same elements of it.

    Args:
        body: the touches.
        ids: each point's block as one number.
        points: the grid points themselves, a row for each.
        axes: the grid axes whose points may run at once, and how the body counts them.
    """
    verdict: Tri = "no"
    for touch in body.touches:
        if touch.kind == "load":
            continue
        if touch.kind == "other" or touch.when is None or touch.starts is None:
            verdict = "unknown"
            continue
        at = np.nonzero(touch.when)[0]
        keys = np.stack([ids[at], *(start[at] for start in touch.starts)], axis=1)
        if len(np.unique(keys, axis=0)) == len(keys):
            verdict = verdict if touch.whole or _one_size_apart(keys, touch) else "unknown"
        elif touch.masked:
            verdict = "unknown"
        elif touch.depends & ({axes[axis] for axis in _differing(keys, points[at]) & axes.keys()} | {OLD}):
            return "yes"
        elif DATA in touch.depends:
            verdict = "unknown"
    return verdict


def _differing(keys: Ints, points: Ints) -> set[int]:
    """The axes along which points of equal keys differ."""
    order = np.lexsort(keys.T)
    sorted_keys, sorted_points = keys[order], points[order]
    same = (sorted_keys[1:] == sorted_keys[:-1]).all(axis=1)
    differ = (sorted_points[1:] != sorted_points[:-1]) & same[:, None]
    return {int(axis) for axis in np.nonzero(differ.any(axis=0))[0]}


def _one_size_apart(keys: Ints, touch: Touch) -> bool:
    """Whether stores that start at different elements of a block cannot overlap: they differ by whole sizes."""
    starts = keys[:, 1:]
    return bool(touch.sizes) and bool((starts % np.array(touch.sizes) == 0).all())


def builds_on_stale(body: Body, ids: Ints) -> Tri:
    """Whether the last visit of a block that comes back builds on what was in it, or leaves it unwritten.

    ``ids``: each point's block, in the order in which the points run.
    """
    starts = np.concatenate([[0], np.nonzero(ids[1:] != ids[:-1])[0] + 1])
    ends = np.concatenate([starts[1:], [len(ids)]])
    last = {int(ids[start]): run for run, start in enumerate(starts)}
    counts: dict[int, int] = {}
    for start in starts:
        counts[int(ids[start])] = counts.get(int(ids[start]), 0) + 1
    runs = [run for block, run in last.items() if counts[block] > 1]
    position, end = starts[runs], ends[runs]
    while len(position):
        open_runs = np.ones(len(position), dtype=bool)
        for touch in body.touches:
            if touch.when is None or touch.kind == "other":
                return "unknown"
            now = touch.when[position] & open_runs
            if touch.kind == "load" and now.any():
                return "unknown" if body.selects_old else "yes"
            if touch.kind == "store" and now.any():
                if not touch.whole:
                    return "unknown"
                open_runs &= ~now
        left = open_runs & (position + 1 == end)
        if left.any():
            return "yes"
        keep = open_runs & (position + 1 < end)
        position, end = position[keep] + 1, end[keep]
    return "no"
