"""What a call of JAX gives, from memory, from the store of earlier runs, or from JAX itself.

JAX is imported only for a call that no run has seen before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typedpallas.dims import Facts, Size
from typedpallas.dtypes import DType
from typedpallas_mypy import store, written
from typedpallas_mypy.call import Call, Outcome, Refused
from typedpallas_mypy.static import DTypeOf, Leaf, Like, UnknownType
from typedpallas_mypy.value import Value

_MOST_REMEMBERED = 20_000
_ANSWERS: dict[str, str] = {}
_OUTCOMES: dict[str, Outcome | Refused] = {}
"""By question. An outcome is kept as it is where the call has no type parameter, which is an object of its own."""


def evaluate(call: Call, facts: Facts, families: Mapping[str, type[DType] | None]) -> Outcome | Refused:
    """Evaluate a call. ``families`` bounds each type parameter that stands for an element type, by name."""
    leaves = call.leaves
    names: set[str] = set()
    for leaf in leaves:
        if isinstance(leaf, Value | Size):
            names.update(leaf.names)
        elif isinstance(leaf, Like | DTypeOf):
            names.update(leaf.value.names)
        elif isinstance(leaf, UnknownType):
            return None
    multiples = tuple([(n, facts.multiple(n)) for n in sorted(names)])
    try:
        question = written.question(call, multiples, families)
    except written.Unwritable:
        return _asked(call, multiples, families)[0]
    if question in _OUTCOMES:
        return _OUTCOMES[question]
    parameters = _parameters(leaves)
    outcome = _answered(question, call, multiples, families, parameters)
    if not parameters:
        _OUTCOMES[question] = outcome
    return outcome


def _answered(
    question: str,
    call: Call,
    multiples: tuple[tuple[str, int], ...],
    families: Mapping[str, type[DType] | None],
    parameters: Mapping[str, Any],
) -> Outcome | Refused:
    """The answer of an earlier run or call; otherwise JAX's, which is then kept."""
    kept = store.opened()
    answer = _ANSWERS.get(question) or (kept.get(question) if kept is not None else None)
    if answer is not None:
        try:
            return written.read(answer, parameters)
        except (ValueError, TypeError, KeyError):
            pass
    outcome, lasting = _asked(call, multiples, families)
    if lasting:
        answer = written.answer(outcome)
        if len(_ANSWERS) >= _MOST_REMEMBERED:
            _ANSWERS.clear()
            _OUTCOMES.clear()
        _ANSWERS[question] = answer
        if kept is not None:
            kept.put(question, answer)
    return outcome


def _asked(
    call: Call, multiples: tuple[tuple[str, int], ...], families: Mapping[str, type[DType] | None]
) -> tuple[Outcome | Refused, bool]:
    """JAX's own answer, and whether it would be the same another time."""
    from typedpallas_mypy import evaluation

    return evaluation.outcome(call, multiples, families)


def _parameters(leaves: list[Leaf]) -> dict[str, Any]:
    """The type parameters in a call, by name."""
    values = [leaf.value if isinstance(leaf, Like | DTypeOf) else leaf for leaf in leaves]
    return {v.parameter.name: v.parameter for v in values if isinstance(v, Value) and v.parameter is not None}
