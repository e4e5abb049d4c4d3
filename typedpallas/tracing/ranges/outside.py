"""Whether a number surely leaves its bounds at some step."""

from typedpallas.events import Step
from typedpallas.starts.bounds import Bounds, bounds
from typedpallas.starts.terms import Term
from typedpallas.tracing.ranges.points import Bools, Ints, Path, comes, find


def outside(term: Term, path: Path, known: Bounds, last: int) -> Step | None:
    """A step that surely comes and whose start is negative or beyond the ``last`` one that fits."""
    found = bounds(term, known)
    if found.low is not None and found.low >= 0 and found.high is not None and found.high <= last:
        return None

    def wrong(values: Ints) -> Bools:
        return (values < 0) | (values > last)

    witness = find(term, path, wrong)
    if witness is not None:
        return Step(at=witness.at, start=witness.value)
    always = found.high if found.high is not None and found.high < 0 else None
    always = found.low if found.low is not None and found.low > last else always
    return Step(at={}, start=always) if always is not None and comes(path) else None
