"""Calls, branches and loops that only load, store and compute: where all memory holds something meant, it stays so.

Such an equation is not walked as long as nothing that it gets may be garbage and no copy is under way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from typedpallas.tracing import jaxapi

_CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")
CONTROL = frozenset(("cond", "scan", "while", "run_scoped", *_CALLS))
STATEFUL = frozenset({"get_barrier_semaphore"})
_STORES = frozenset({"swap", "addupdate", "masked_swap"})
_MASKED = frozenset({"masked_load", "masked_swap"})
_ACCESSES = frozenset({"get", "masked_load", *_STORES})


@dataclass(frozen=True)
class Calm:
    """What such an equation does to refs, by their positions among its operands."""

    stored: frozenset[int] = frozenset()
    masked: frozenset[int] = frozenset()
    """Those that it reaches under masks."""


class Finder:
    """Asks about each equation once."""

    def __init__(self) -> None:
        self._known: dict[int, Calm | None] = {}

    def of(self, eqn: Any) -> Calm | None:
        """What a call, a branch or a loop does; none where it is nothing of the kind, or does anything else."""
        if id(eqn) not in self._known:
            self._known[id(eqn)] = self._found(eqn)
        return self._known[id(eqn)]

    def _found(self, eqn: Any) -> Calm | None:
        stored: set[int] = set()
        masked: set[int] = set()
        parts = list(_parts(eqn))
        for jaxpr, positions in parts:
            if len(positions) != len(jaxpr.invars) or not self._inside(jaxpr, positions, stored, masked):
                return None
        return Calm(frozenset(stored), frozenset(masked)) if parts else None

    def _inside(self, jaxpr: Any, positions: Sequence[int], stored: set[int], masked: set[int]) -> bool:
        at = dict(zip(jaxpr.invars, positions, strict=True))
        for eqn in jaxpr.eqns:
            refs = [atom for atom in eqn.invars if jaxapi.is_ref(atom.aval)]
            name = eqn.primitive.name
            if any(ref not in at for ref in refs) or any(jaxapi.is_ref(var.aval) for var in eqn.outvars):
                return False
            if name in CONTROL:
                inside = self.of(eqn)
                if inside is None:
                    return False
                stored |= {at[eqn.invars[k]] for k in inside.stored}
                masked |= {at[eqn.invars[k]] for k in inside.masked}
            elif name in STATEFUL or (refs and name not in _ACCESSES):
                return False
            else:
                stored |= {at[ref] for ref in refs if name in _STORES}
                masked |= {at[ref] for ref in refs if name in _MASKED}
        return True


def _parts(eqn: Any) -> Iterator[tuple[Any, list[int]]]:
    """The jaxprs of a call, a branch or a loop, each with the positions of the operands that its inputs stand for."""
    name, count = eqn.primitive.name, len(eqn.invars)
    if name == "while":
        tests, bodies = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        carried = list(range(tests + bodies, count))
        yield jaxapi.open_jaxpr(eqn.params["cond_jaxpr"]), [*range(tests), *carried]
        yield jaxapi.open_jaxpr(eqn.params["body_jaxpr"]), [*range(tests, tests + bodies), *carried]
    elif name == "cond":
        for branch in eqn.params["branches"]:
            yield jaxapi.open_jaxpr(branch), list(range(1, count))
    elif name == "scan" or name in _CALLS:
        for inner in jaxapi.inner_jaxprs(eqn):
            yield inner, list(range(count))
