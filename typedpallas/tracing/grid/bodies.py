"""What a kernel's body does to its outputs at each grid point: when it loads, when it stores, where, and what.

Conditions and indices that follow from program ids are known at every point; whatever depends on data is not.
"""

from collections.abc import Sequence
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
_FIRST_OLD = -3
"""Stands for the old content of the operand at position 0, while outputs are told apart; below it the others."""
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
    outputs: dict[Any, int]
    """The outputs' refs, with their positions among the operands."""
    when: Ints | None
    looped: bool = False
    runs: dict[Any, Ints] = field(default_factory=dict)
    """Vectors ``start + arange(n)`` to their start at each grid point."""
    spread: dict[Any, grid_values.Value] = field(default_factory=dict)
    """Vectors of one value to that value at each grid point."""


@dataclass
class Body:
    """Every touch of one output, in program order."""

    touches: list[Touch] = field(default_factory=list)
    selects_old: bool = False
    """Whether old content goes through a select, which may drop it."""


@dataclass
class _Bodies:
    """Those of all outputs, by their positions, at ``points`` grid points."""

    grid: grid_values.Walked
    points: int
    moves: Sequence[frozenset[int]]
    found: dict[int, Body]

    def depends(self, origin: frozenset[int], output: int) -> frozenset[int]:
        """What a value is computed from, as one output sees it: another one is a ref like any."""
        found: set[int] = set()
        for part in origin:
            position = _FIRST_OLD - part
            if position < 0:
                found.add(part)
            elif position == output:
                found.add(OLD)
            else:
                found |= self.moves[position]
        return frozenset(found)


def touches(
    jaxpr: Any, outputs: Sequence[int], moves: Sequence[frozenset[int]], grid: grid_values.Walked, points: int
) -> dict[int, Body]:
    """The body's touches of its operands number ``outputs``; ``moves`` has each operand's axes."""
    bodies = _Bodies(grid, points, moves, {output: Body() for output in outputs})
    refs = dict(zip(jaxpr.invars, moves, strict=True))
    own = {jaxpr.invars[output]: output for output in outputs}
    _walk(jaxpr, _State({}, {}, refs, own, np.ones(points, dtype=bool)), bodies)
    return bodies.found


def _walk(jaxpr: Any, state: _State, bodies: _Bodies) -> None:
    used = {atom for eqn in jaxpr.eqns for atom in eqn.invars if not jaxapi.is_literal(atom)} | {
        atom for atom in jaxpr.outvars if not jaxapi.is_literal(atom)
    }
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        state.env.update(zip(eqn.outvars, grid_values.results(eqn, state.env, bodies.grid), strict=True))
        _note_run(eqn, state, bodies)
        inner = list(jaxapi.inner_jaxprs(eqn))
        depends = _depends(eqn, state, bool(inner))
        if name == "select_n":
            for output in (_FIRST_OLD - part for part in depends if part <= _FIRST_OLD):
                bodies.found[output].selects_old = True
        if name == "cond":
            _branches(eqn, inner, state, bodies)
        elif name == "run_scoped" and inner:
            _enter(inner[0], list(inner[0].constvars), eqn.invars, state, bodies)
        elif name in _INLINED and inner and len(inner[0].invars) == len(eqn.invars):
            _enter(inner[0], list(inner[0].invars), eqn.invars, state, bodies)
        elif name == "scan" and len(inner) == 1 and len(inner[0].invars) == len(eqn.invars):
            _loop(inner[0], eqn, state, bodies)
        else:
            for atom in dict.fromkeys(atom for atom in eqn.invars if jaxapi.is_ref(atom.aval)):
                if atom in state.outputs:
                    _touch(eqn, atom, state, bodies, used)
        state.depends.update(dict.fromkeys(eqn.outvars, depends))


def _depends(eqn: Any, state: _State, nested: bool) -> frozenset[int]:
    """What an equation's results are computed from."""
    name = eqn.primitive.name
    found: set[int] = set()
    if name == "program_id":
        found.add(eqn.params["axis"])
    for atom in eqn.invars:
        if jaxapi.is_literal(atom):
            continue
        if atom in state.refs:
            found |= {_FIRST_OLD - state.outputs[atom]} if atom in state.outputs else state.refs[atom]
        found |= state.depends.get(atom, frozenset())
    if nested and name not in ("pjit", "jit"):
        found.add(DATA)
    return frozenset(found)


def _enter(inner: Any, variables: list[Any], operands: Sequence[Any], state: _State, bodies: _Bodies) -> None:
    """Walk a jaxpr whose inputs are these operands."""
    env: dict[Any, grid_values.Value] = {}
    depends: dict[Any, frozenset[int]] = {}
    refs: dict[Any, frozenset[int]] = {}
    outputs: dict[Any, int] = {}
    for var, atom in zip(variables, operands, strict=True):
        env[var] = None if state.looped else grid_values.read(state.env, atom)
        if jaxapi.is_literal(atom):
            continue
        depends[var] = state.depends.get(atom, frozenset()) | ({DATA} if state.looped else frozenset())
        if atom in state.refs:
            refs[var] = state.refs[atom]
        if atom in state.outputs:
            outputs[var] = state.outputs[atom]
    entered = _State(env, depends, refs, outputs, state.when, state.looped)
    _walk(inner, entered, bodies)


def _loop(inner: Any, eqn: Any, state: _State, bodies: _Bodies) -> None:
    """A loop of known length runs its body; what it carries is not followed."""
    if not eqn.params["length"]:
        return
    outer = _State(state.env, state.depends, state.refs, state.outputs, state.when, looped=True)
    _enter(inner, list(inner.invars), eqn.invars, outer, bodies)


def _branches(eqn: Any, inner: list[Any], state: _State, bodies: _Bodies) -> None:
    which = grid_values.read(state.env, eqn.invars[0])
    for number, branch in enumerate(inner):
        when: Ints | None = None
        if which is not None and state.when is not None:
            when = state.when & np.broadcast_to(which.astype(int) == number, (bodies.points,))
        entered = _State(state.env, state.depends, state.refs, state.outputs, when, state.looped)
        _enter(branch, list(branch.invars), eqn.invars[1:], entered, bodies)


def _touch(eqn: Any, ref: Any, state: _State, bodies: _Bodies, used: set[Any]) -> None:
    name, output = eqn.primitive.name, state.outputs[ref]
    body = bodies.found[output]
    if name not in (*_LOADS, *_STORES) or jaxapi.accessed(eqn)[0] is not ref:
        body.touches.append(Touch("other", state.when))
        return
    starts, sizes, whole = _where(eqn, state, bodies.points)
    masked = grid_indices.is_masked(eqn)
    value = jaxapi.accessed(eqn)[1]
    if value is None:
        body.touches.append(Touch("load", state.when, whole, starts, sizes, masked))
        return
    adds = name == "addupdate"
    if adds or any(var in used for var in eqn.outvars):
        body.touches.append(Touch("load", state.when, whole, starts, sizes, masked))
    origin = frozenset() if jaxapi.is_literal(value) else state.depends.get(value, frozenset())
    origin = bodies.depends(origin, output) | ({OLD} if adds else frozenset())
    body.touches.append(Touch("store", state.when, whole, starts, sizes, masked, origin))


def _where(eqn: Any, state: _State, points: int) -> tuple[tuple[Ints, ...] | None, tuple[int, ...], bool]:
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
        starts.append(np.broadcast_to(value, (points,)))
        whole = whole and size == extent and not np.any(value)
    return tuple(starts), tuple(size for _, size in index), whole


def _start(start: Any, state: _State) -> grid_values.Value:
    if isinstance(start, int):
        return np.asarray(start)
    return state.runs.get(start) if grid_indices.is_vector(start) else grid_values.read(state.env, start)


def _note_run(eqn: Any, state: _State, bodies: _Bodies) -> None:
    """Remember what an equation makes if that is a vector ``start + arange(n)``."""
    aval = getattr(eqn.outvars[0], "aval", None) if len(eqn.outvars) == 1 else None
    if len(getattr(aval, "shape", ())) != 1 or np.dtype(getattr(aval, "dtype", "f4")).kind not in "iu":
        return
    name, out = eqn.primitive.name, eqn.outvars[0]
    if name == "iota":
        state.runs[out] = np.zeros(bodies.points, dtype=np.int64)
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
