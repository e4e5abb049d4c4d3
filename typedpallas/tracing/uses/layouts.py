"""Reductions in Mosaic GPU kernels that leave every register layout to the compiler."""

import math
from collections.abc import Iterator
from typing import Any

from typedpallas.events import Reduced
from typedpallas.tracing import jaxapi
from typedpallas.tracing.located import Located
from typedpallas.tracing.walk import KernelCall

_REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min")
_BRING_LAYOUTS = ("wgmma", "tcgen05", "mma", "inline_mgpu", "relayout", "layout", "tmem")
"""Parts of the names of operations that fix, or may fix, a layout."""


def events(kernel: KernelCall) -> Iterator[Located]:
    """One event for each reduction of a loaded array, if the compiler infers the layouts and nothing names one."""
    semantics = getattr(kernel.compiler_params, "lowering_semantics", None)
    if kernel.backend != "mosaic_gpu" or getattr(semantics, "name", "") != "Warpgroup":
        return
    bodies = list(_bodies(kernel.jaxpr))
    if any(_names_layout(eqn) for body in bodies for eqn in body.eqns):
        return
    for body in bodies:
        made = {var: eqn for eqn in body.eqns for var in eqn.outvars}
        for eqn in body.eqns:
            shape = jaxapi.shape_of(eqn.invars[0].aval) if eqn.primitive.name in _REDUCTIONS else None
            if shape is not None and None not in shape and _is_loaded(eqn.invars[0], made, shape):
                sizes = tuple(size or 0 for size in shape)
                event = Reduced(primitive=eqn.primitive.name, shape=sizes, axes=tuple(eqn.params["axes"]))
                yield Located(event, jaxapi.place(eqn), kernel.name)


def _bodies(jaxpr: Any) -> Iterator[Any]:
    yield jaxpr
    for eqn in jaxpr.eqns:
        for inner in jaxapi.inner_jaxprs(eqn):
            yield from _bodies(inner)


def _names_layout(eqn: Any) -> bool:
    named = any("layout" in name and value is not None for name, value in eqn.params.items())
    return named or any(part in eqn.primitive.name for part in _BRING_LAYOUTS)


def _is_loaded(atom: Any, made: dict[Any, Any], shape: tuple[int | None, ...]) -> bool:
    """Whether a value is loaded in this shape, or made from such a value element by element."""
    eqn = None if jaxapi.is_literal(atom) else made.get(atom)
    if eqn is None or jaxapi.shape_of(atom.aval) != shape or math.prod(size or 0 for size in shape) == 0:
        return False
    if eqn.primitive.name == "get":
        return True
    if any(True for _ in jaxapi.inner_jaxprs(eqn)):
        return False
    return any(_is_loaded(other, made, shape) for other in eqn.invars)
