"""Compiler parameters that JAX refuses when it lowers: of a wrong type, or a `collective_id` that does not fit."""

from collections.abc import Iterator, Mapping
from typing import Any

from typedpallas.events import WrongParameters
from typedpallas.tracing import jaxapi
from typedpallas.tracing.located import Located
from typedpallas.tracing.walk import KernelCall


def events(kernel: KernelCall) -> Iterator[Located]:
    """What is wrong, at the line of the call, or where the barrier semaphore is asked for."""
    params = kernel.compiler_params
    if kernel.interpret:
        return
    if isinstance(params, Mapping):
        found = WrongParameters(kernel=kernel.name, why="a dict", found=f"a dict of {_keys(params)}")
        yield Located(found, kernel.place, kernel.name)
    elif kernel.backend == "mosaic_tpu" and kernel.mesh is None and not jaxapi.assigns_collective_ids():
        yield from _collective(kernel, getattr(params, "collective_id", None))


def _keys(params: Mapping[Any, Any]) -> str:
    return ", ".join(f"`{key}`" for key in params) or "nothing"


def _collective(kernel: KernelCall, given: Any) -> Iterator[Located]:
    barriers = list(_barriers(kernel.jaxpr))
    if given is None and barriers and all(eqn.params.get("tag") is None for eqn in barriers):
        found = WrongParameters(kernel=kernel.name, why="no collective_id", found="none")
        place = jaxapi.place(barriers[0])
        yield Located(found, place if place.file else kernel.place, kernel.name)
    elif given is not None and any(eqn.params.get("tag") is not None for eqn in barriers):
        found = WrongParameters(kernel=kernel.name, why="collective_id beside tag", found=f"`collective_id={given}`")
        yield Located(found, kernel.place, kernel.name)
    elif given is not None and not barriers and not _may_be_without(kernel.compiler_params):
        why = f"`collective_id={given}` and no barrier semaphore"
        found = WrongParameters(kernel=kernel.name, why="collective_id without barrier", found=why)
        yield Located(found, kernel.place, kernel.name)


def _may_be_without(params: Any) -> bool:
    return bool(getattr(params, "allow_collective_id_without_custom_barrier", False))


def _barriers(jaxpr: Any) -> Iterator[Any]:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "get_barrier_semaphore":
            yield eqn
        for inner in jaxapi.inner_jaxprs(eqn):
            yield from _barriers(jaxapi.open_jaxpr(inner))
