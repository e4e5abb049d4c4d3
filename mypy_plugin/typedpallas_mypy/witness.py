"""Steps at which a start is no multiple of what it should be, in numbers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Final

from typedpallas.events import Step
from typedpallas.starts.terms import OPERATIONS, Leaf, Term, leaves

_MOST_LEAVES: Final = 4
_VALUES: Final = 4


def breaks(term: Term, divisor: int) -> Step | None:
    """The first step of the grid and the loops where a start is no multiple; none where data decides it."""
    used = list(leaves(term))
    if len(used) > _MOST_LEAVES or not all(leaf.known for leaf in used):
        return None
    ranges = [range(_VALUES if leaf.high is None else min(leaf.high + 1, _VALUES)) for leaf in used]
    for values in itertools.product(*ranges):
        start = _value(term, dict(zip(used, values, strict=True)))
        if start is not None and start % divisor:
            return Step(at={leaf.label: value for leaf, value in zip(used, values, strict=True)}, start=start)
    return None


def _value(term: Term, at: Mapping[Leaf, int]) -> int | None:
    if term.leaf is not None:
        return at[term.leaf]
    if term.const is not None:
        return term.const
    args = [_value(arg, at) for arg in term.args]
    if any(arg is None for arg in args):
        return None
    return args[0] if term.op in ("multiple", "opaque", "joined") else OPERATIONS[term.op](*args)
