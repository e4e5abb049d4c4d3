"""Every private part of JAX that launches need, in one place. Checked against JAX 0.11.2 and 0.12.0.1."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax._src import api_util, config, core, flattree
from jax._src.interpreters import partial_eval
from jax._src.state import discharge, types


def is_ref(x: Any) -> bool:
    """Whether it is a ref or a view of one, not a value."""
    return isinstance(x, types.TransformedRef) or isinstance(getattr(x, "aval", None), types.AbstractRef)


def ref_type(shape: tuple[int, ...], dtype: Any) -> Any:
    """The type of a ref in no particular memory."""
    return types.AbstractRef(core.ShapedArray(shape, dtype))


def value_type(shape: tuple[int, ...], dtype: Any) -> Any:
    """The type of a value."""
    return core.ShapedArray(shape, dtype)


def inner(jaxpr: Any) -> Any:
    """The equations' holder in what may be a `ClosedJaxpr` (JAX 0.12 has no such class)."""
    return getattr(jaxpr, "jaxpr", jaxpr)


def trace(fn: Callable[..., Any], avals: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The jaxpr of ``fn`` with what it closes over as leading inputs, and those inputs."""
    info = api_util.debug_info("launch", fn, tuple(avals), {})
    with config.mutable_array_checks(False):
        found, _ = partial_eval.trace_to_jaxpr_nocache(fn, flattree.flatten((tuple(avals), {})), info)
    return partial_eval.convert_constvars_jaxpr(inner(found)), list(found.consts)


def discharged(jaxpr: Any, which: Sequence[bool]) -> Any:
    """The jaxpr with the refs of ``which`` inputs as values, whose last states are outputs."""
    closed = core.ClosedJaxpr(jaxpr, ()) if hasattr(core, "ClosedJaxpr") else jaxpr
    return inner(discharge.discharge_state(closed, should_discharge=list(which), strip_memory_space=True))


def used_inputs(jaxpr: Any) -> list[bool]:
    """Which inputs the outputs and effects depend on."""
    _, used = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    return list(used)


def without_dead_code(jaxpr: Any) -> Any:
    """The same jaxpr, with the same inputs, less the equations that nothing depends on."""
    pruned, _ = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    return pruned


def ref_inputs(eqn: Any) -> set[Any] | None:
    """The variables of the refs that an equation reads or writes; none if it has other effects too."""
    found = set()
    for effect in eqn.effects:
        if not isinstance(effect, types.RefEffect):
            return None
        found.add(eqn.invars[effect.input_index])
    return found


def with_equations(jaxpr: Any, equations: Sequence[Any]) -> Any:
    """A jaxpr of the same inputs and outputs, with other equations."""
    effects = core.no_effects.union(*(eqn.effects for eqn in equations)) if equations else core.no_effects
    return jaxpr.replace(eqns=list(equations), effects=_own_effects(jaxpr, equations, effects))


def _own_effects(jaxpr: Any, equations: Sequence[Any], effects: Any) -> set[Any]:
    """Ref effects name an equation's inputs; a jaxpr's name its own."""
    position = {var: i for i, var in enumerate(jaxpr.invars)}
    found = {effect for effect in effects if not isinstance(effect, types.RefEffect)}
    for eqn in equations:
        for effect in eqn.effects:
            if isinstance(effect, types.RefEffect) and eqn.invars[effect.input_index] in position:
                found.add(effect.replace(input_index=position[eqn.invars[effect.input_index]]))
    return found


def is_literal(atom: Any) -> bool:
    """Whether an equation's operand is a constant written into it."""
    return isinstance(atom, core.Literal)


def evaluate(jaxpr: Any, arguments: Sequence[Any]) -> list[Any]:
    """Run the equations, keeping the source lines that they came from."""
    return list(core.eval_jaxpr(jaxpr, (), *arguments, propagate_source_info=True))


def varying_axes(array: Any) -> frozenset[str]:
    """The mesh axes along which an array inside a `shard_map` varies."""
    kind = jax.typeof(array)
    found = getattr(kind, "vma", None)
    return frozenset(found or ())
