"""The rule book as far as one run of mypy needs it: to import all of it takes as long as to check fifty kernels.

Which rules there are, what each is about and which of them judge an event is kept beside JAX's answers, under a
digest of the rule book. A rule is then imported with the first event that it judges.
"""

from __future__ import annotations

import functools
import json

from typedpallas import rules
from typedpallas_mypy import store, version


@functools.cache
def summaries() -> dict[str, str]:
    """Every rule's slug and what it is about; from now on the rule book follows the same record."""
    kept, question = store.opened(), f"rules {version.source_hash()}"
    known = kept.get(question) if kept is not None else None
    if known is None:
        book, index = {slug: _summary(rule) for slug, rule in rules.all_rules().items()}, rules.index()
        if kept is not None:
            kept.put(question, json.dumps([book, index]))
        return book
    found: dict[str, str]
    found, index = json.loads(known)
    rules.follow(index)
    return found


def _summary(rule: rules.Rule) -> str:
    return (rule.__doc__ or rule.slug).strip().splitlines()[0]
