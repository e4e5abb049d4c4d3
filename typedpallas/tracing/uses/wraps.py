"""Sums of integer matrix products that are kept in a type narrower than the products."""

import math
from collections.abc import Iterator
from typing import Any

from typedpallas.events import WrappedSum
from typedpallas.tracing import body, jaxapi
from typedpallas.tracing.located import Located
from typedpallas.tracing.uses import sums as uses_sums
from typedpallas.tracing.walk import KernelCall, Operand

_BITS = {"int4": 4, "int8": 8, "int16": 16, "int32": 32}
_SUM = "int32"
_LOADS = ("get", "load", "masked_load")

type _Refs = dict[Any, Operand]
type _Made = dict[Any, Any]
"""The equation that makes each variable of a jaxpr."""


def events(kernel: KernelCall) -> Iterator[Located]:
    """One event for each such sum over more than one step, at the line where it is stored."""
    if not any(operand.dtype in _BITS and operand.dtype != _SUM for operand in kernel.operands):
        return
    refs = dict(zip(kernel.jaxpr.invars, kernel.operands, strict=False))
    widened: set[str] = set()
    found = list(_walk(kernel.jaxpr, refs, kernel, widened))
    for event, place in found:
        yield Located(WrappedSum(**event, widened=event["buffer"] in widened), place, kernel.name)


def _walk(jaxpr: Any, refs: _Refs, kernel: KernelCall, widened: set[str]) -> Iterator[tuple[dict[str, Any], Any]]:
    made = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
    summed: set[Any] = set()
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "swap":
            event = _stored(eqn, made, refs, kernel, summed)
            if event is not None:
                yield event, jaxapi.place(eqn)
        for inner in jaxapi.inner_jaxprs(eqn):
            yield from _walk(inner, entered(eqn, inner, refs), kernel, widened)
    for eqn in jaxpr.eqns:
        widened.update(_widened(eqn, made, refs, summed))


def entered(eqn: Any, inner: Any, refs: _Refs) -> _Refs:
    """The refs that an inner jaxpr's variables stand for."""
    outer = body.outer_operands(eqn, inner)
    return {
        var: refs[atom]
        for var, atom in zip(inner.invars, outer, strict=False)
        if atom is not None and not jaxapi.is_literal(atom) and atom in refs
    }


def _stored(eqn: Any, made: _Made, refs: _Refs, kernel: KernelCall, summed: set[Any]) -> dict[str, Any] | None:
    """The event's parts, if this store puts the buffer's old content plus a wide product back into it."""
    buffer, value = eqn.invars[:2]
    operand = refs.get(buffer)
    if operand is None or _BITS.get(operand.dtype or "", 32) >= _BITS[_SUM]:
        return None
    total = _made(_source(value, made), "add", made)
    if total is None or jaxapi.dtype_name(total.outvars[0].aval) != _SUM:
        return None
    for old, part in (total.invars, total.invars[::-1]):
        loaded, product = _made(_source(old, made), "get", made), _made(part, "dot_general", made)
        if loaded is None or product is None or loaded.invars[0] is not buffer:
            continue
        terms = uses_sums.shared_steps(operand, kernel)
        if terms is None or terms < 2:
            return None
        summed.update(loaded.outvars)
        left, right = product.invars
        return {
            "wide": _SUM,
            "narrow": operand.dtype,
            "buffer": operand.name,
            "terms": terms,
            "depth": _depth(product),
            "operands": (jaxapi.dtype_name(left.aval) or "", jaxapi.dtype_name(right.aval) or ""),
            "loaded": all(any(_made(side, name, made) for name in _LOADS) for side in (left, right)),
        }
    return None


def _widened(eqn: Any, made: _Made, refs: _Refs, summed: set[Any]) -> Iterator[str]:
    """The buffer that a conversion to a wider type reads, other than to add to it."""
    if eqn.primitive.name != "convert_element_type" or jaxapi.is_literal(eqn.invars[0]) or eqn.invars[0] in summed:
        return
    loaded = _made(eqn.invars[0], "get", made)
    operand = None if loaded is None else refs.get(loaded.invars[0])
    if operand is not None and jaxapi.dtype_name(eqn.outvars[0].aval) in (_SUM, "float32", "bfloat16"):
        yield operand.name


def _depth(product: Any) -> int:
    (left, _), _ = product.params["dimension_numbers"]
    shape = jaxapi.shape_of(product.invars[0].aval) or ()
    return math.prod(shape[axis] or 1 for axis in left)


def _source(atom: Any, made: _Made) -> Any:
    """What a value was before conversions between integer types."""
    while (eqn := _made(atom, "convert_element_type", made)) is not None:
        if jaxapi.dtype_name(eqn.invars[0].aval) not in _BITS:
            break
        atom = eqn.invars[0]
    return atom


def _made(atom: Any, primitive: str, made: _Made) -> Any:
    """The equation that made a value, if it is one of this primitive; none otherwise."""
    eqn = None if jaxapi.is_literal(atom) else made.get(atom)
    return eqn if eqn is not None and eqn.primitive.name == primitive else None
