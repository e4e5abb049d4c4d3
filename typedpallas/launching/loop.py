"""A kernel whose sequential axis is a loop inside one GPU program: state refs become the loop's carry.

The kernel is traced once for any step. What it does under `tp.first` and `tp.last` is moved before and after the
loop where that changes nothing, as a person would write it, and stays under a condition in the loop elsewhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from typedpallas.launching import jaxapi

type States = tuple[tuple[tuple[int, ...], Any], ...]
"""Shape and element type of every state ref."""


@dataclass(frozen=True)
class Stepped:
    """One step of a kernel, its state as values, split into what comes before, in and after the loop.

    Inputs of the three jaxprs: what the kernel closes over (refs mostly), the step if there is one, the blocks that
    are new at each step, the states.
    """

    before: Any
    main: Any
    after: Any
    closed_over: tuple[Any, ...]
    states: States
    moved: "Moved"

    def start(self) -> tuple[Any, ...]:
        """The states before the first step; zero where the kernel sets nothing."""
        pure, used = self._discharged(self.before, keep_states=True)
        zeros = [jnp.zeros(shape, dtype) if u else None for (shape, dtype), u in zip(self.states, used, strict=True)]
        return self._evaluate(pure, np.int32(0), zeros)

    def step(self, index: Any, values: Sequence[Any]) -> tuple[Any, ...]:
        """The states after one more step."""
        pure, _ = self._discharged(self.main, keep_states=True)
        return self._evaluate(pure, index, values)

    def finish(self, values: Sequence[Any]) -> None:
        """What the kernel does once, after the last step."""
        pure, _ = self._discharged(self.after, keep_states=False)
        self._evaluate(pure, np.int32(0), values)

    def _discharged(self, jaxpr: Any, keep_states: bool) -> tuple[Any, list[bool]]:
        """The jaxpr with states as values, and which states it depends on."""
        stateless = len(jaxpr.invars) - len(self.states)
        pure = jaxapi.discharged(jaxpr, [False] * stateless + [True] * len(self.states))
        pure, used = jaxapi.live(pure, [keep_states] * len(pure.outvars))
        return pure, used[stateless:]

    def _evaluate(self, jaxpr: Any, index: Any, values: Sequence[Any]) -> tuple[Any, ...]:
        between = len(jaxpr.invars) - len(self.closed_over) - len(self.states)
        return tuple(jaxapi.evaluate(jaxpr, [*self.closed_over, *([index] * between), *values]))


def run(body: Callable[..., None], states: States, steps: int | None) -> None:
    """Run ``body(step, *state_refs)`` for every step; without steps once, with none as its step."""
    stepped = trace(body, states, steps)
    if steps is None:
        stepped.finish(stepped.step(None, stepped.start()))
        return
    values = lax.fori_loop(np.int32(0), np.int32(steps), stepped.step, stepped.start())
    stepped.finish(values)


@dataclass(frozen=True)
class Moved:
    """Which of the conditions of a kernel go before the loop and which after it, counted from 0."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


def trace(
    body: Callable[..., None],
    states: States,
    steps: int | None,
    blocks: Sequence[Any] = (),
    moved: Moved | None = None,
) -> Stepped:
    """Trace one step, ``body(step, *blocks, *state_refs)``, and split it.

    Args:
        blocks: types of refs that are other ones at each step. The main part cannot be run then.
        moved: the split to make, where it is known.
    """
    step = [] if steps is None else [jaxapi.value_type((), jnp.dtype(jnp.int32))]

    def one(*arguments: Any) -> tuple[()]:
        body(*(arguments if step else (None, *arguments)))
        return ()

    avals = [*step, *blocks, *(jaxapi.ref_type(shape, dtype) for shape, dtype in states)]
    jaxpr, closed_over = jaxapi.trace(one, avals)
    if steps is None:
        nothing = _only(jaxpr, [])
        return Stepped(nothing, jaxpr, nothing, tuple(closed_over), states, Moved())
    inside = jaxpr.invars[len(closed_over) : len(closed_over) + 1 + len(blocks)]
    once = _Conditions(jaxpr, inside)
    moved = once.split(steps) if moved is None else moved
    before, after = ([once.positions[n] for n in which] for which in (moved.before, moved.after))
    rest = [eqn for i, eqn in enumerate(jaxpr.eqns) if i not in (*before, *after)]
    main = jaxapi.trace_equations(jaxpr, rest) if before or after else jaxpr
    lead, trail = (_only(jaxpr, [once.unconditional(i) for i in which]) for which in (before, after))
    return Stepped(lead, main, trail, tuple(closed_over), states, moved)


def _only(jaxpr: Any, parts: Any) -> Any:
    """A jaxpr of the same inputs that runs these functions of all of them."""
    functions = list(parts)

    def run_parts(*arguments: Any) -> tuple[()]:
        for function in functions:
            function(*arguments)
        return ()

    found, more = jaxapi.trace(run_parts, [var.aval for var in jaxpr.invars])
    assert not more
    return found


class _Conditions:
    """The equations of a jaxpr that run at one step only, and where they may be moved."""

    def __init__(self, jaxpr: Any, inside: Sequence[Any]) -> None:
        self.jaxpr = jaxpr
        self.step = inside[0]
        self.inside = frozenset(inside)
        self.producer = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
        self.refs = [jaxapi.ref_inputs(eqn) for eqn in jaxpr.eqns]
        self.conditions = {i: at for i, eqn in enumerate(jaxpr.eqns) if (at := self._condition(eqn)) is not None}
        self.positions = list(self.conditions)

    def split(self, steps: int) -> Moved:
        """The conditions that may be moved out of a loop of this many steps."""
        before: list[int] = []
        after: list[int] = []
        for position in self._at(0):
            if all(other in before or self._apart(position, other) for other in range(position)):
                before.append(position)
        for position in reversed(self._at(steps - 1)):
            later = range(position + 1, len(self.jaxpr.eqns))
            if position not in before and all(o in after or self._apart(position, o) for o in later):
                after.insert(0, position)
        number = self.positions.index
        return Moved(tuple(map(number, before)), tuple(map(number, after)))

    def _at(self, step: int) -> list[int]:
        """The equations that run at this step only and whose other inputs are there outside of the loop."""
        return [i for i, at in self.conditions.items() if at == step and self._outside(self.jaxpr.eqns[i])]

    def unconditional(self, position: int) -> Callable[..., None]:
        """What the equation does when its condition holds, as a function of the jaxpr's inputs."""
        eqn = self.jaxpr.eqns[position]
        branch = eqn.params["branches"][1]
        slices = self._pure_slice(eqn.invars[1:])
        assert slices is not None

        def run_branch(*arguments: Any) -> None:
            operands = jaxapi.evaluate_variables(self.jaxpr, slices, eqn.invars[1:], arguments)
            jaxapi.evaluate_closed(branch, operands)

        return run_branch

    def _condition(self, eqn: Any) -> int | None:
        """The one step at which a `pl.when` equation acts; none for every other equation."""
        if eqn.primitive.name != "cond" or eqn.outvars or len(eqn.params["branches"]) != 2:
            return None
        if jaxapi.inner(eqn.params["branches"][0]).eqns:
            return None
        test = self.producer.get(eqn.invars[0]) if not jaxapi.is_literal(eqn.invars[0]) else None
        while test is not None and test.primitive.name == "convert_element_type":
            test = self.producer.get(test.invars[0])
        if test is None or test.primitive.name != "eq" or test.invars[0] is not self.step:
            return None
        return int(test.invars[1].val) if jaxapi.is_literal(test.invars[1]) else None

    def _outside(self, eqn: Any) -> bool:
        return self._pure_slice(eqn.invars[1:]) is not None

    def _pure_slice(self, variables: Sequence[Any]) -> list[Any] | None:
        """The equations that make these variables out of the loop's surroundings; none if the loop has a part."""
        needed: set[int] = set()
        pending = [var for var in variables if not jaxapi.is_literal(var)]
        while pending:
            var = pending.pop()
            if var in self.inside:
                return None
            eqn = self.producer.get(var)
            if eqn is None:
                continue
            if eqn.effects:
                return None
            needed.add(id(eqn))
            pending += [var for var in eqn.invars if not jaxapi.is_literal(var)]
        return [eqn for eqn in self.jaxpr.eqns if id(eqn) in needed]

    def _apart(self, position: int, other: int) -> bool:
        """Whether two equations may change places."""
        mine, theirs = self.refs[position], self.refs[other]
        if not self.jaxpr.eqns[other].effects:
            return True
        return mine is not None and theirs is not None and not mine & theirs
