"""Single elements that a kernel loads and uses, or stores."""

from collections.abc import Iterator
from typing import Any

from typedpallas.events import Scalar
from typedpallas.tracing import jaxapi
from typedpallas.tracing.located import Located
from typedpallas.tracing.ranges.frames import Use

_WORD_BYTES = 4
_INTO_ONE_TYPE = ("convert_element_type", "copy", "stop_gradient")


def events(uses: list[Use], kernel: str) -> Iterator[Located]:
    """One `Scalar` for each use that moves one narrow element and no array."""
    for use in uses:
        if use.op == "load" and _is_narrow(use.eqn.outvars[0]) and _is_needed(use.jaxpr, use.eqn.outvars[0]):
            event = Scalar(name=use.buffer.name, op="load", space=use.buffer.space, dtype=_dtype(use.eqn.outvars[0]))
        elif use.op == "store" and _is_narrow(jaxapi.accessed(use.eqn)[1]):
            value = jaxapi.accessed(use.eqn)[1]
            event = Scalar(
                name=use.buffer.name,
                op="store",
                space=use.buffer.space,
                dtype=_dtype(value),
                constant=_is_constant(use.jaxpr, value),
            )
        else:
            continue
        yield Located(event, use.place, kernel)


def _is_narrow(atom: Any) -> bool:
    return bool(atom.aval.shape == ()) and getattr(atom.aval.dtype, "itemsize", _WORD_BYTES) < _WORD_BYTES


def _dtype(atom: Any) -> str | None:
    return jaxapi.dtype_name(atom.aval)


def _is_needed(jaxpr: Any, var: Any) -> bool:
    """Whether something that matters comes of a value: the results, a store, an equation with jaxprs inside."""
    wanted = {atom for atom in jaxpr.outvars if not jaxapi.is_literal(atom)}
    for eqn in reversed(jaxpr.eqns):
        matters = any(out in wanted for out in eqn.outvars) or any(jaxapi.is_ref(atom.aval) for atom in eqn.invars)
        if matters or eqn.effects or any(True for _ in jaxapi.inner_jaxprs(eqn)):
            wanted.update(atom for atom in eqn.invars if not jaxapi.is_literal(atom))
    return var in wanted


def _is_constant(jaxpr: Any, atom: Any) -> bool:
    if jaxapi.is_literal(atom):
        return True
    made = next((eqn for eqn in jaxpr.eqns if atom in eqn.outvars), None)
    return made is not None and made.primitive.name in _INTO_ONE_TYPE and _is_constant(jaxpr, made.invars[0])
