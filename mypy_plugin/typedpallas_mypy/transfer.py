"""What a call of JAX gives, from memory, from the store of earlier runs, or from JAX itself.

JAX is imported only for a call that no run has seen before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from typedpallas.dims import Facts, Size
from typedpallas.dtypes import DType
from typedpallas_mypy import store, written
from typedpallas_mypy.call import Call, Outcome, Refused
from typedpallas_mypy.static import DTypeOf, Leaf, Like, UnknownType
from typedpallas_mypy.value import Value

_MOST_REMEMBERED = 20_000

type Multiples = tuple[tuple[str, int], ...]
type Families = Mapping[str, type[DType] | None]
"""What bounds each type parameter that stands for an element type, by name."""

_ANSWERS: dict[str, str] = {}
"""By question."""
_OUTCOMES: dict[tuple[str, Multiples], Outcome | Refused] = {}
"""By the text of a call without type parameters, which are objects of their own."""
_CALLS: dict[str, tuple[tuple[str, ...], bool]] = {}
"""The text of a call to the names of the dims in it, sorted, and whether it has type parameters."""
_FOREIGN: dict[str, bool] = {}
"""Functions that were looked up, to whether they are known to be none of those that JAX evaluates."""


def evaluate(call: Call, facts: Facts, families: Callable[[Call], Families]) -> Outcome | Refused:
    """Evaluate a call; nothing comes of one with an argument that is not known at all."""
    try:
        text = written.call_text(call)
    except written.Unknown:
        return None
    except written.Unwritable:
        known = not any(isinstance(leaf, UnknownType) for leaf in call.leaves)
        return _asked(call, _multiples(_names(call), facts), families(call))[0] if known else None
    if text not in _CALLS:
        if len(_CALLS) >= _MOST_REMEMBERED:
            for memory in (_ANSWERS, _OUTCOMES, _CALLS):
                memory.clear()
        _CALLS[text] = _names(call), bool(_parameters(call.leaves))
    names, parametrised = _CALLS[text]
    multiples = _multiples(names, facts)
    if parametrised:
        return _answered(text, call, multiples, families(call))
    key = (text, multiples)
    if key not in _OUTCOMES:
        outcome = _answered(text, call, multiples, {})
        _OUTCOMES[key] = outcome
        return outcome
    return _OUTCOMES[key]


def is_foreign(function: str) -> bool:
    """Whether this function is known to be none that JAX evaluates: `jax.ShapeDtypeStruct`, say."""
    if function not in _FOREIGN:
        kept = store.opened()
        _FOREIGN[function] = kept is not None and kept.get(f"foreign {function}") is not None
    return _FOREIGN[function]


def _names(call: Call) -> tuple[str, ...]:
    names: set[str] = set()
    for leaf in call.leaves:
        if isinstance(leaf, Value | Size):
            names.update(leaf.names)
        elif isinstance(leaf, Like | DTypeOf):
            names.update(leaf.value.names)
    return tuple(sorted(names))


def _multiples(names: tuple[str, ...], facts: Facts) -> Multiples:
    return tuple([(name, facts.multiple(name)) for name in names])


def _answered(text: str, call: Call, multiples: Multiples, families: Families) -> Outcome | Refused:
    """The answer of an earlier run or call; otherwise JAX's, which is then kept."""
    kept, question = store.opened(), written.question(text, multiples, families)
    answer = _ANSWERS.get(question) or (kept.get(question) if kept is not None else None)
    if answer is not None:
        try:
            return written.read(answer, _parameters(call.leaves))
        except (ValueError, TypeError, KeyError):
            pass
    outcome, lasting = _asked(call, multiples, families)
    if lasting:
        if outcome is None and _is_no_function(call.function):
            _FOREIGN[call.function] = True
            if kept is not None:
                kept.put(f"foreign {call.function}", "")
        answer = written.answer(outcome)
        _ANSWERS[question] = answer
        if kept is not None:
            kept.put(question, answer)
    return outcome


def _asked(call: Call, multiples: Multiples, families: Families) -> tuple[Outcome | Refused, bool]:
    """JAX's own answer, and whether it would be the same another time."""
    from typedpallas_mypy import evaluation

    return evaluation.outcome(call, multiples, families)


def _is_no_function(name: str) -> bool:
    from typedpallas_mypy import evaluation

    return evaluation.callee(name) is None


def _parameters(leaves: list[Leaf]) -> dict[str, Any]:
    """The type parameters in a call, by name."""
    values = [leaf.value if isinstance(leaf, Like | DTypeOf) else leaf for leaf in leaves]
    return {v.parameter.name: v.parameter for v in values if isinstance(v, Value) and v.parameter is not None}
