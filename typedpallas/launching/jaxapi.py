"""Every private part of JAX that launches need, in one place. Checked against JAX 0.11.2 and 0.12.0.1."""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
from jax._src import api_util, config, core, flattree
from jax._src.interpreters import partial_eval
from jax._src.state import discharge, types
from jax.experimental import pallas as pl


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


def named_after(kernel: Callable[..., Any], parameters: Sequence[str], body: Callable[..., Any]) -> Any:
    """``body`` with what JAX notes of a function: the kernel's name and place, and these parameters."""
    function = kernel
    while isinstance(function, functools.partial):
        function = function.func
    functools.update_wrapper(body, inspect.unwrap(function))
    kind = inspect.Parameter.POSITIONAL_ONLY
    body.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in parameters])  # type: ignore[attr-defined]
    return body


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


def live(jaxpr: Any, outputs: Sequence[bool]) -> tuple[Any, list[bool]]:
    """The jaxpr with these outputs and the same inputs, less dead equations; and which inputs it depends on."""
    _, used = partial_eval.dce_jaxpr(jaxpr, list(outputs))
    pruned, _ = partial_eval.dce_jaxpr(jaxpr, list(outputs), instantiate=True)
    return pruned, list(used)


def ref_inputs(eqn: Any) -> set[Any] | None:
    """The variables of the refs that an equation reads or writes; none if it has other effects too."""
    found = set()
    for effect in eqn.effects:
        if not isinstance(effect, types.RefEffect):
            return None
        place = effect.input
        found.add(eqn.invars[place] if isinstance(place, int) else place)
    return found


def trace_equations(jaxpr: Any, equations: Sequence[Any]) -> Any:
    """A jaxpr of the same inputs that runs only these equations."""
    chosen = jaxpr.replace(eqns=list(equations))
    found, more = trace(lambda *arguments: evaluate(chosen, arguments), [var.aval for var in jaxpr.invars])
    assert not more
    return found


def evaluate_variables(
    jaxpr: Any, equations: Sequence[Any], variables: Sequence[Any], arguments: Sequence[Any]
) -> list[Any]:
    """What ``variables`` of a jaxpr are, by these of its equations."""
    return evaluate(jaxpr.replace(eqns=list(equations), outvars=list(variables)), arguments)


def evaluate_closed(jaxpr: Any, arguments: Sequence[Any]) -> list[Any]:
    """Run a branch of a condition."""
    consts = getattr(jaxpr, "consts", ())
    return list(core.eval_jaxpr(inner(jaxpr), consts, *arguments, propagate_source_info=True))


@contextmanager
def _back_in(trace_: Any) -> Iterator[None]:
    with core.set_current_trace(trace_):
        yield


def here(fn: Callable[[], Any]) -> Callable[[], Any]:
    """``fn`` as called where `here` was, however deep in conditions and loops the call is; called once at most."""
    outer = core.trace_ctx.trace
    known: list[Any] = []

    def call() -> Any:
        if not known:
            with _back_in(outer):
                known.append(fn())
        return known[0]

    return call


def settings() -> Any:
    """What a trace depends on besides its function and its arguments: JAX's configuration, as a dictionary's key."""
    return config.trace_context()


def is_literal(atom: Any) -> bool:
    """Whether an equation's operand is a constant written into it."""
    return isinstance(atom, core.Literal)


def evaluate(jaxpr: Any, arguments: Sequence[Any]) -> list[Any]:
    """Run the equations, keeping the source lines that they came from."""
    return list(core.eval_jaxpr(jaxpr, (), *arguments, propagate_source_info=True))


def result_type(shape: tuple[int, ...], dtype: Any, arrays: Sequence[Any]) -> jax.ShapeDtypeStruct:
    """The type of a result: inside a `jax.shard_map` it varies along every mesh axis that some array varies along."""
    varying: frozenset[Any] = frozenset()
    for array in arrays:
        varying |= jax.typeof(array).manual_axis_type.varying
    return jax.ShapeDtypeStruct(shape, dtype, manual_axis_type=core.ManualAxisType(varying=varying))


def ref_of(scratch: Any) -> Any:
    """The type of the ref that Pallas makes of a scratch type."""
    made = scratch.get_ref_aval()
    return getattr(made, "ref", made)


def uses(fn: Callable[..., Any], count: int) -> list[bool]:
    """Which of its ``count`` int32 arguments the results of ``fn`` depend on."""
    jaxpr = inner(jax.make_jaxpr(fn)(*[jax.ShapeDtypeStruct((), "int32")] * count))
    return live(jaxpr, [True] * len(jaxpr.outvars))[1]


def with_promises(jaxpr: Any, promises: Mapping[int, Mapping[Any, int]]) -> Any:
    """The jaxpr with `pl.multiple_of` around operands: by an equation's `id`, the variable and what divides it.

    Equations inside of others are reached too. A jaxpr in which nothing is promised comes back itself.
    """
    opened = inner(jaxpr)
    equations: list[Any] = []
    made: dict[tuple[Any, int], Any] = {}
    for eqn in opened.eqns:
        told = promises.get(id(eqn), {})
        for key in told.items():
            if key not in made:
                made[key] = _multiple_of(*key, eqn.source_info)
                equations.append(made[key])
        equations.append(_told(eqn, {key[0]: made[key] for key in told.items()}, promises))
    if len(equations) == len(opened.eqns) and all(a is b for a, b in zip(equations, opened.eqns, strict=True)):
        return jaxpr
    changed = opened.replace(eqns=equations)
    return changed if opened is jaxpr else jaxpr.replace(jaxpr=changed)


def _told(eqn: Any, hints: Mapping[Any, Any], promises: Mapping[int, Mapping[Any, int]]) -> Any:
    """The equation with the results of these equations for its operands, and with promises made inside of it."""
    params = {name: _with_promises_inside(value, promises) for name, value in eqn.params.items()}
    if any(params[name] is not value for name, value in eqn.params.items()):
        eqn = eqn.replace(params=params)
    if not hints:
        return eqn
    invars = [atom if is_literal(atom) or atom not in hints else hints[atom].outvars[0] for atom in eqn.invars]
    return eqn.replace(invars=invars)


def _with_promises_inside(value: Any, promises: Mapping[int, Mapping[Any, int]]) -> Any:
    """A parameter of an equation, with promises made in the jaxprs that it is or holds."""
    if type(value) in (tuple, list):
        items = [_with_promises_inside(item, promises) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else type(value)(items)
    return with_promises(value, promises) if hasattr(inner(value), "eqns") else value


def _multiple_of(var: Any, divisor: int, source: Any) -> Any:
    """An equation that promises what divides a variable, with a result of its own."""
    made = inner(jax.make_jaxpr(lambda number: pl.multiple_of(number, divisor))(var.aval))
    return made.eqns[0].replace(invars=[var], source_info=source)


def without_rules(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function without its own rules for derivatives, which kernels do not lower; one result."""

    def run(*arguments: Any) -> Any:
        traced = jax.make_jaxpr(fn)(*arguments)
        return _opened(inner(traced), traced.consts, arguments)[0]

    return run


def _opened(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """Run the equations; of calls, what is called."""
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))

    def read(atom: Any) -> Any:
        return atom.val if is_literal(atom) else known[atom]

    for eqn in jaxpr.eqns:
        values = [read(atom) for atom in eqn.invars]
        called = eqn.params.get("call_jaxpr", eqn.params.get("jaxpr"))
        if called is not None:
            found = _opened(inner(called), getattr(called, "consts", ()), values)
        else:
            results = eqn.primitive.bind(*values, **eqn.params)
            found = results if eqn.primitive.multiple_results else [results]
        known.update(zip(eqn.outvars, found, strict=True))
    return [read(atom) for atom in jaxpr.outvars]
