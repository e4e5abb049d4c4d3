"""A jaxpr of a GPU kernel made ready to be walked many times: only what counts, moves data or synchronises."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.warpgroups import numbers
from typedpallas.tracing.warpgroups.numbers import Frame
from typedpallas.tracing.warpgroups.views import View, view

CALLS = frozenset(
    ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")
)
CONTROL = CALLS | {"cond", "scan", "while", "run_scoped", "run_state", "mpmd_map", "core_map"}
_LOCAL = frozenset(
    (
        *("get", "swap", "addupdate", "load", "store", "masked_load", "masked_swap"),
        *("wgmma_accumulator_deref",),
    )
)
"""Accesses that synchronise with nothing else: where it is not known whether they happen, they may be left out."""
_SILENT = frozenset(
    (
        *("async_prefetch", "set_max_registers", "print_layout", "debug_print", "add_dependency", "delay"),
        *("griddepcontrol_wait", "griddepcontrol_launch_dependents", "semaphore_read", "get_global"),
    )
)
_ALONE = frozenset(
    (
        *("commit_smem", "commit_group", "commit_tmem", "wait_smem_to_gmem", "wait_gmem_to_smem", "wgmma_wait"),
        *("wait_load_tmem", "inline_mgpu"),
    )
)
"""Operations with effects though they take no ref."""


@dataclass(frozen=True, slots=True)
class Step:
    """One equation. ``compute``: for a whole scalar; without it the equation is handled by its name."""

    eqn: Any
    name: str
    compute: Callable[[Frame], int | None] | None
    views: dict[str, tuple[Any, View]] = field(default_factory=dict)
    """The refs that an operation works on, each with what it takes of it; filled by who handles it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The equations of a jaxpr that matter, in order. ``syncs``: whether leaving them out could be noticed."""

    jaxpr: Any
    steps: tuple[Step, ...]
    syncs: bool
    acts: bool
    """Whether anything reaches memory."""


class Plans:
    """Plans by jaxpr, each made once."""

    def __init__(self) -> None:
        self._known: dict[int, Plan] = {}

    def of(self, jaxpr: Any) -> Plan:
        """The plan of a jaxpr, open or closed."""
        opened = jaxapi.open_jaxpr(jaxpr)
        found = self._known.get(id(opened))
        if found is None:
            found = self._known[id(opened)] = self._made(opened)
        return found

    def _made(self, jaxpr: Any) -> Plan:
        steps = tuple(self._steps(jaxpr.eqns))
        acting = [step for step in steps if step.compute is None]
        syncs = acts = False
        for step in acting:
            if step.name in CONTROL:
                inner = [self.of(jaxpr) for jaxpr in jaxapi.inner_jaxprs(step.eqn)]
                syncs = syncs or any(plan.syncs for plan in inner) or step.name in ("run_state", "mpmd_map")
                acts = acts or any(plan.acts for plan in inner)
            else:
                syncs, acts = syncs or step.name not in _LOCAL, True
        return Plan(jaxpr, steps, syncs, acts)

    def _steps(self, eqns: Sequence[Any]) -> Iterator[Step]:
        for eqn in eqns:
            name = eqn.primitive.name.removesuffix("_p")  # as JAX 0.12 does
            if name in _SILENT:
                continue
            if name in CONTROL:
                if any(numbers.is_number(var) for var in eqn.outvars) or self._acts(eqn):
                    yield Step(eqn, name, None)
            elif name in _ALONE or any(jaxapi.is_ref(atom.aval) for atom in eqn.invars) or name == "axis_index":
                yield Step(eqn, name, None)
            elif len(eqn.outvars) == 1 and numbers.is_number(eqn.outvars[0]):
                compute = numbers.computation(eqn)
                if compute is not None:
                    yield Step(eqn, name, compute)

    def _acts(self, eqn: Any) -> bool:
        return any(self.of(inner).acts for inner in jaxapi.inner_jaxprs(eqn))


def operand(step: Step, name: str, ref: Any, tree: Any, leaves: Sequence[Any]) -> tuple[Any, View]:
    """One ref of an operation, and what its transforms take of it; worked out once."""
    found = step.views.get(name)
    if found is None:
        transforms = () if tree is None else tree.unflatten(list(leaves))
        if hasattr(ref, "transforms"):
            ref, transforms = ref.ref, (*ref.transforms, *transforms)
        found = step.views[name] = ref, view(transforms)
    return found
