"""Terms in numbers: one step of the grid and of every loop around an access, at which something goes wrong."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from typedpallas.starts.terms import OPERATIONS, Leaf, Term, folded, leaves

type Ints = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
type Bools = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

_MOST_POINTS = 20_000
"""More steps than this are looked at by their first, second, middle and last along each axis and loop."""


@dataclass(frozen=True)
class Condition:
    """What a path takes: the term, brought between 0 and ``last``, is ``branch``."""

    term: Term
    branch: int
    last: int


@dataclass(frozen=True)
class Path:
    """How the walk came to an equation."""

    conditions: tuple[Condition, ...] = ()
    loops: tuple[Leaf, ...] = ()
    certain: bool = True
    """False where a loop on the way may not run, or a condition on the way is not known."""

    @property
    def runs(self) -> bool:
        """Whether it is known when the equation runs."""
        return self.certain and all(leaf.known for leaf in leaves(*(one.term for one in self.conditions)))


@dataclass(frozen=True)
class Witness:
    """A step that surely comes, by the names of what it fixes, and the value there."""

    at: Mapping[str, int]
    value: int


def find(term: Term, path: Path, wrong: Callable[[Ints], Bools]) -> Witness | None:
    """A step on the path at which the term's value is wrong; none if there is none, or it is not known to come."""
    used = list(leaves(term, *(one.term for one in path.conditions)))
    if not path.runs or not all(leaf.known for leaf in used):
        return None
    points, count = _points(used)
    values: dict[Term, Ints] = {}
    here = np.ones(count, dtype=bool)
    for condition in path.conditions:
        here &= np.clip(_value(condition.term, points, values), 0, condition.last) == condition.branch
    found = _value(term, points, values)
    bad = np.flatnonzero(here & wrong(np.broadcast_to(found, (count,))))
    if not len(bad):
        return None
    first = int(bad[0])
    at = {leaf.label: int(points[id(leaf)][first]) for leaf in used}
    return Witness(at, int(np.broadcast_to(found, (count,))[first]))


def comes(path: Path) -> bool:
    """Whether the path is surely taken at some step."""
    return find(Term("const", value=0), path, lambda value: value == 0) is not None


def _size(used: Sequence[Leaf]) -> int:
    return math.prod(_extent(leaf) for leaf in used)


def _extent(leaf: Leaf) -> int:
    assert leaf.low is not None and leaf.high is not None
    return leaf.high - leaf.low + 1


def _points(used: Sequence[Leaf]) -> tuple[dict[int, Ints], int]:
    """Each leaf's value at each step, by its `id`; the last leaf runs fastest."""
    small = _size(used) <= _MOST_POINTS
    axes = [list(_all(leaf) if small else _some(leaf)) for leaf in used]
    grid = np.array(list(itertools.product(*axes)), dtype=np.int64)
    return {id(leaf): grid[:, k] for k, leaf in enumerate(used)}, len(grid)


def _all(leaf: Leaf) -> Iterator[int]:
    assert leaf.low is not None and leaf.high is not None
    yield from range(leaf.low, leaf.high + 1)


def _some(leaf: Leaf) -> Iterator[int]:
    assert leaf.low is not None and leaf.high is not None
    yield from sorted({leaf.low, min(leaf.low + 1, leaf.high), (leaf.low + leaf.high) // 2, leaf.high})


def _value(term: Term, points: Mapping[int, Ints], values: dict[Term, Ints]) -> Ints:
    return folded(term, values, lambda last, args: _computed(last, args, points))


def _computed(term: Term, args: list[Ints], points: Mapping[int, Ints]) -> Ints:
    if term.leaf is not None:
        return points[id(term.leaf)]
    if term.op == "const":
        return np.asarray(term.value, dtype=np.int64)
    if term.op in ("multiple", "opaque", "joined"):
        return args[0]
    with np.errstate(all="ignore"):
        return np.asarray(_FAST[term.op](*args) if term.op in _FAST else _slow(term.op, args)).astype(np.int64)


def _slow(op: str, args: list[Ints]) -> Ints:
    """One element at a time; where an operation has no result, some value that decides nothing."""
    function = OPERATIONS[op]
    broadcast = np.broadcast_arrays(*args)
    results = [
        function(*(int(value) for value in row)) or 0 for row in zip(*(a.flat for a in broadcast), strict=True)
    ]
    return np.array(results, dtype=np.int64).reshape(broadcast[0].shape)


_FAST: Mapping[str, Callable[..., object]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "abs": np.abs,
    "sign": np.sign,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "select": lambda which, otherwise, chosen: np.where(which != 0, chosen, otherwise),
}
