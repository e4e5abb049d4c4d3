"""Sizes to try: a few numbers for each dim that show between them all that a rule of tiles can tell apart.

Such a rule asks whether powers of two divide a size, whether it is at most 128, and whether it equals another one.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from typedpallas.dims import Facts
from typedpallas_mypy.forms import FREE

_ALIGNED: Final = 4096
"""What every tile divides."""
_STEPS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 31, 32, 64, 127, 128, 256, 512)
_FREE: Final = (1, 0, 2, 3, 4, 7, 8, 16, 32, 64, 128, _ALIGNED)
MOST_NAMES: Final = 5
_MOST: Final = 256


def cases(names: Iterable[str], facts: Facts, constants: Iterable[int]) -> Iterator[Mapping[str, int]]:
    """Assignments of numbers to the names, the most regular first; none where there are too many names.

    Args:
        names: dims, and numbers that the source does not tell (`FREE`).
        facts: what the bounds of the dims promise.
        constants: numbers that a dim may have to equal.
    """
    ordered = sorted(set(names))
    if len(ordered) > MOST_NAMES:
        return
    choices = [_values(name, facts, sorted(set(constants))) for name in ordered]
    seen: set[tuple[int, ...]] = set()
    for values in itertools.chain(_alike(choices), _all(choices)):
        if values not in seen:
            seen.add(values)
            yield dict(zip(ordered, values, strict=True))


def _values(name: str, facts: Facts, constants: list[int]) -> list[int]:
    if name.startswith(FREE):
        return list(dict.fromkeys([*_FREE, *constants]))
    of = facts.multiple(name)
    steps = [math.lcm(of, _ALIGNED), *(math.lcm(of, step) for step in (1, 128, 8, 16, 32))]
    further = [*(of * step for step in _STEPS), *(value for value in constants if value > 0 and value % of == 0)]
    return [*steps, *further]


def _alike(choices: list[list[int]]) -> Iterator[tuple[int, ...]]:
    """All names at their first value, at their second, ...: dims are often equal, or nearly so."""
    for place in range(max(map(len, choices), default=1)):
        yield tuple(values[min(place, len(values) - 1)] for values in choices)


def _all(choices: list[list[int]]) -> Iterator[tuple[int, ...]]:
    choices = [list(dict.fromkeys(values)) for values in choices]
    if math.prod(map(len, choices)) <= _MOST:
        yield from itertools.product(*choices)
        return
    chance = random.Random(0)
    for _ in range(_MOST):
        yield tuple(chance.choice(values) for values in choices)
